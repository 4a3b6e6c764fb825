// Package server serves the pages of fleets live: pages follow the branches, and an open page reloads when they move.
//
// The server only reads. It answers GET and HEAD, and POST to sign out. Who may see a repository is asked for each
// request: Access names the person, and Rights says what the person may read; answers are kept for minutes. Without
// Access the server answers only requests whose host is a loopback address, and is meant to listen there.
//
// Paths are /REPOSITORY/-/PAGE. Pages are looked up by their full name among those that exist; no path reaches the file
// system.
//
// The package is not API: it can change in every release.
package server

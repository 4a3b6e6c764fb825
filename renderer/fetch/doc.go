// Package fetch gets packed charts from HTTP chart repositories and OCI registries. It is the only part of rendering that
// reads the network, and it gives out nothing but archives whose digest was asked for.
//
// sluice.lock says what each request for a chart resolved to. Resolve asks the network for that, Archive downloads by it
// and keeps downloads by digest. Addresses inside private networks are allowed: chart repositories live there. Credentials
// go only to the host they are for and never into an error.
package fetch

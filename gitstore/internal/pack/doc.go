// Package pack reads and writes the objects of a Git repository: packfiles with their indexes, and single objects. It
// knows neither refs nor remotes, nor what is in an object.
//
// A Folder reads one folder of objects. A Writer collects new objects in one packfile, and moves it into a Folder. Tidy
// merges the packs of a cache. Files are untrusted: sizes, checksums and names are checked, and what differs from what
// Git wrote is a *DamagedError. Both types are safe for concurrent use, and other processes may change the folder.
package pack

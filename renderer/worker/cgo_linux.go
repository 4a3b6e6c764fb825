//go:build linux && cgo

package worker

// pidNamespaces: libpsx, which changes all threads at once in programs with cgo, looks them up in /proc, which shows
// the parent's PID namespace. Released binaries are built without cgo.
const pidNamespaces = false

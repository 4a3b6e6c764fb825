//go:build linux && !cgo

package worker

const pidNamespaces = true

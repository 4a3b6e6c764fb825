//go:build !linux

package renderer

// limitData does nothing where the system has no bound that Go's runtime lives with; watchMemory remains.
func limitData(int64) {}

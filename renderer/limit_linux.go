package renderer

import "syscall"

// limitData bounds the writable memory of this process, so that one huge allocation fails instead of taking the
// machine. Go's runtime needs some room beside the heap.
func limitData(memory int64) {
	const room = 512 << 20
	limit := uint64(memory) + room //nolint:gosec // positive
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: limit, Max: limit})
}

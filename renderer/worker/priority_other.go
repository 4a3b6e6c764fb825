//go:build !linux

package worker

// lowerPriority does nothing: workers are nicer on Linux only, where the service runs.
func lowerPriority(int) {}

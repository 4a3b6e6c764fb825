package stage

import (
	"bytes"
	"sync"
)

// Journal is a log in memory. It is safe for concurrent use.
type Journal struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write implements io.Writer.
func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.Write(p)
}

// String returns the log so far.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.String()
}

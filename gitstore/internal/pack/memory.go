package pack

import (
	"io"
	"os"
	"sync"
)

// packFile stores the objects of a Writer.
type packFile interface {
	io.Writer
	io.WriterAt
	io.ReaderAt
	io.Closer
	Name() string
}

// memoryFile is a packFile in memory.
type memoryFile struct {
	mu     sync.RWMutex
	data   []byte
	closed bool
}

// Name returns "", because there is no file.
func (m *memoryFile) Name() string { return "" }

// Write implements io.Writer.
func (m *memoryFile) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = append(m.data, p...)
	return len(p), nil
}

// WriteAt implements io.WriterAt.
func (m *memoryFile) WriteAt(p []byte, at int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if end := int(at) + len(p); end > len(m.data) {
		m.data = append(m.data, make([]byte, end-len(m.data))...)
	}
	return copy(m.data[at:], p), nil
}

// ReadAt implements io.ReaderAt.
func (m *memoryFile) ReadAt(p []byte, at int64) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch {
	case m.closed:
		return 0, os.ErrClosed
	case at >= int64(len(m.data)):
		return 0, io.EOF
	}
	n := copy(p, m.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Close releases the memory.
func (m *memoryFile) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data, m.closed = nil, true
	return nil
}

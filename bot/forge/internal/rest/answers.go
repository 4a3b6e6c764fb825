package rest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/sluice-gitops/sluice/internal/lru"
)

// A sweep asks for some answers of each repository again. If not all of them are cached, the least recently used one is
// always the next, and every request counts against the quota.
const (
	maxAnswers      = 1 << 16
	maxAnswersBytes = 64 << 20 // compressed, with headers: some 30,000 usual answers
)

// answer is an answer with an ETag.
type answer struct {
	tag    string
	header http.Header
	body   []byte // gzip
}

// size is about the number of bytes that the answer takes in memory.
func (a *answer) size() int {
	const other = 300 // the key and the entry of the cache
	n := other + len(a.tag) + len(a.body)
	for name, values := range a.header {
		const list = 64 // a slice and its place in the map
		n += list + len(name)
		for _, v := range values {
			n += len(v)
		}
	}
	return n
}

// response returns the answer that the forge would have repeated.
func (a answer) response(req *http.Request) (*http.Response, error) {
	r, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		return nil, fmt.Errorf("read a remembered answer: %w", err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read a remembered answer: %w", err)
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header.Clone(),
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}

// answers caches the answers of the most recent requests, within a limit on their size.
type answers struct {
	mu    sync.Mutex
	cache *lru.Cache[*answer]
	bytes int

	writers sync.Pool // of *gzip.Writer: one has a megabyte of tables
}

func newAnswers() *answers {
	a := &answers{}
	a.cache = lru.NewWithEvict(maxAnswers, func(gone *answer) { a.bytes -= gone.size() })
	return a
}

func (a *answers) get(key string) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have, ok := a.cache.Get(key)
	if !ok {
		return answer{}, false
	}
	return *have, true
}

// pack compresses a body.
func (a *answers) pack(body []byte) ([]byte, error) {
	w, ok := a.writers.Get().(*gzip.Writer)
	if !ok {
		var err error
		if w, err = gzip.NewWriterLevel(io.Discard, gzip.BestSpeed); err != nil {
			return nil, err
		}
	}
	defer a.writers.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	_, err := w.Write(body)
	err = errors.Join(err, w.Close())
	return bytes.Clone(out.Bytes()), err
}

// put caches an answer if it has an ETag. It leaves the body readable.
func (a *answers) put(key string, resp *http.Response) error {
	tag := resp.Header.Get("ETag")
	if tag == "" || resp.StatusCode != http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(resp.Body) // it is in memory
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	packed, err := a.pack(body)
	if err != nil {
		return fmt.Errorf("remember an answer: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cache.Remove(key) // the eviction callback subtracts its bytes
	one := &answer{tag: tag, header: resp.Header.Clone(), body: packed}
	a.cache.Add(key, one)
	for a.bytes += one.size(); a.bytes > maxAnswersBytes; {
		a.cache.RemoveOldest()
	}
	return nil
}

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

const (
	maxAnswers      = 4096
	maxAnswersBytes = 64 << 20 // compressed
)

// answer is an answer with an ETag.
type answer struct {
	tag    string
	header http.Header
	body   []byte // gzip
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
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}

// answers caches the answers of the most recent requests, within a limit on their size.
type answers struct {
	mu    sync.Mutex
	cache *lru.Cache[*answer]
	bytes int
}

func newAnswers() *answers {
	a := &answers{}
	a.cache = lru.NewWithEvict(maxAnswers, func(gone *answer) { a.bytes -= len(gone.body) })
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
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := w.Write(body); errors.Join(err, w.Close()) != nil {
		return fmt.Errorf("remember an answer: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cache.Remove(key) // the eviction callback subtracts its bytes
	a.cache.Add(key, &answer{tag: tag, header: resp.Header.Clone(), body: packed.Bytes()})
	for a.bytes += packed.Len(); a.bytes > maxAnswersBytes; {
		a.cache.RemoveOldest()
	}
	return nil
}

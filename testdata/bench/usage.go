package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// meter counts requests, and bytes of their bodies without the headers. It is safe for concurrent use.
type meter struct{ requests, received, sent atomic.Int64 }

func (m *meter) count(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.requests.Add(1)
		r.Body = &countedBody{ReadCloser: r.Body, n: &m.received}
		h.ServeHTTP(&countedAnswer{ResponseWriter: w, n: &m.sent}, r)
	})
}

type countedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

type countedAnswer struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (a *countedAnswer) Write(p []byte) (int, error) {
	n, err := a.ResponseWriter.Write(p)
	a.n.Add(int64(n))
	return n, err
}

// processes returns a process and its living children.
func processes(pid int) ([]int, error) {
	out := []int{pid}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	for _, t := range threads {
		list, _ := os.ReadFile(t) // a thread that ended has none
		for child := range strings.FieldsSeq(string(list)) {
			id, err := strconv.Atoi(child)
			if err != nil {
				return nil, err
			}
			out = append(out, id)
		}
	}
	return out, nil
}

// familyTime returns the processor time of a process and all its children, those that ended included. The kernel counts
// in hundredths of a second.
func familyTime(pid int) (time.Duration, error) {
	all, err := processes(pid)
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for i, id := range all {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil {
			if i > 0 {
				continue // it ended, and its parent has its time
			}
			return 0, err
		}
		fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		const first, times = 11, 4 // utime, stime, cutime, cstime of proc(5), counted behind the name
		for _, f := range fields[first : first+times] {
			ticks, err := strconv.Atoi(string(f))
			if err != nil {
				return 0, err
			}
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum, nil
}

// familyMemory returns the resident memory of a process and its living children, in bytes; a page that several share
// counts for each.
func familyMemory(pid int) (own, children int64, err error) {
	all, err := processes(pid)
	if err != nil {
		return 0, 0, err
	}
	if own, err = resident(pid); err != nil {
		return 0, 0, err
	}
	for _, id := range all[1:] {
		one, _ := resident(id) // one that ended has none
		children += one
	}
	return own, children, nil
}

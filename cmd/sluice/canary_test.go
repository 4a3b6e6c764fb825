package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
)

// canarySearch looks for the credentials of stages in everything that the services of a test leave behind: logs,
// comments, objects of Git, metrics, traces, files, core files, and the list of processes, which it reads until the
// test ends.
type canarySearch struct {
	t      *testing.T
	binary string

	mu      sync.Mutex
	secrets []string
	stages  []*stage.Stage
	dirs    []string
	places  int
	found   map[string]bool
}

// searchCanaries searches for the rest of a test. Call it before the cleanups that end the services are registered, so
// that it sees what they write last.
func searchCanaries(t *testing.T, binary string) *canarySearch {
	t.Helper()
	c := &canarySearch{t: t, binary: binary, found: map[string]bool{}}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				c.processes()
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		<-ended
		c.finish()
	})
	return c
}

// stage adds a stage and the folder in which it and its services keep files.
func (c *canarySearch) stage(s *stage.Stage, dir string, more ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secrets = append(append(c.secrets, s.Canaries()...), more...)
	c.stages, c.dirs = append(c.stages, s), append(c.dirs, dir)
}

// look searches in some data.
func (c *canarySearch) look(where string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places++
	for _, secret := range c.secrets {
		if i := bytes.Index(data, []byte(secret)); i >= 0 {
			c.found[fmt.Sprintf("%s: %q", where, data[max(0, i-80):min(len(data), i+len(secret)+20)])] = true
		}
	}
}

// processes reads the command lines of all processes, and the environment of the workers.
func (c *canarySearch) processes() {
	own := alive(c.binary)
	dirs, _ := filepath.Glob("/proc/[0-9]*") // none on other systems
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if slices.Contains(own, filepath.Base(dir)) && !bytes.Contains(text, []byte("\x00serve\x00")) {
			environ, err := os.ReadFile(filepath.Join(dir, "environ"))
			if err == nil {
				text = append(text, environ...)
			}
		}
		c.look("the list of processes, "+dir, text)
	}
}

// scrape searches in the metrics of a service, unless it has ended.
func (c *canarySearch) scrape(p *stage.Process, address string) {
	c.t.Helper()
	if p.Ended() {
		return
	}
	text, err := scrape(context.WithoutCancel(c.t.Context()), address)
	if err != nil && !p.Ended() {
		c.t.Errorf("metrics: %v", err)
	}
	c.look("metrics", text)
}

// scrape returns the metrics of a service.
func scrape(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, stage.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err == nil && !bytes.Contains(text, []byte("sluice_queue_depth")) {
		err = fmt.Errorf("no metrics: %q", text)
	}
	return text, err
}

// finish searches in what is left when the services have ended.
func (c *canarySearch) finish() {
	c.t.Helper()
	for _, s := range c.stages {
		for _, number := range s.Requests() {
			c.look("comments", []byte(strings.Join(s.Comments(number), "\n")))
		}
		out, err := exec.CommandContext(context.WithoutCancel(c.t.Context()), "git", "-C", s.Bare(), "cat-file",
			"--batch-all-objects", "--batch", "--unordered").Output()
		if err != nil || len(out) == 0 {
			c.t.Errorf("the objects of Git cannot be searched: %v", err)
		}
		c.look("objects of Git", out)
	}
	for _, dir := range c.dirs {
		files := c.places
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			// a process of Git that serves a killed service may still remove its files
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			c.look(path, data)
			return err
		})
		if err != nil || c.places == files {
			c.t.Errorf("%s has no files that can be searched: %v", dir, err)
		}
		noCores(c.t, dir)
	}
	for where := range c.found {
		c.t.Errorf("a credential in %s", where)
	}
	c.t.Logf("searched %d credentials in %d places", len(c.secrets), c.places)
}

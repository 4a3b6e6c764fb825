package app_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// leaks searches the credentials of the service in its comments and in the files that it leaves. The writer of the log searches there.
func (s *story) leaks(credentials []string) {
	s.t.Helper()
	places := 0
	look := func(where, text string) {
		places++
		for _, c := range credentials {
			if strings.Contains(text, c) {
				s.t.Errorf("a credential in %s", where)
			}
		}
	}
	var numbers []int
	if s.hub == nil {
		numbers = s.lab.Numbers(repo)
	} else {
		for _, pr := range s.hub.PRs(repo) {
			numbers = append(numbers, pr.Number)
		}
	}
	for _, number := range numbers {
		look("comments", strings.Join(s.comments(number), "\n"))
	}
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a process of Git may still end
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		look(path, string(data))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil || places == 0 {
		s.t.Errorf("searched %d places: %v", places, err)
	}
}

// guardedWriter is a log in which a credential fails the test.
type guardedWriter struct {
	writer
	credentials []string
}

func (w guardedWriter) Write(p []byte) (int, error) {
	if slices.ContainsFunc(w.credentials, func(c string) bool { return strings.Contains(string(p), c) }) {
		w.t.Error("a credential in the log")
	}
	return w.writer.Write(p)
}

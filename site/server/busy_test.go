package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/site"
)

// slowSource makes a report when its test allows it.
type slowSource struct {
	Source
	finish chan struct{}
	made   int
}

func (s *slowSource) Changes(context.Context, string, site.Change) (*report.Review, error) {
	s.made++
	<-s.finish
	return &report.Review{Changes: &diff.ChangeSet{}}, nil
}

// TestBusyChanges: one repository has one comparison at a time, others wait for a few seconds and are told that the
// service is busy. Two who wait for the same page cause one comparison.
func TestBusyChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &slowSource{finish: make(chan struct{})}
		c := newChanges(from)
		ask := func(repository, after string) <-chan error {
			out := make(chan error, 1)
			go func() {
				_, err := c.page(t.Context(), repository, site.Change{Environment: "prod", Before: "a", After: after})
				out <- err
			}()
			synctest.Wait()
			return out
		}
		first, again := ask("one", "b"), ask("one", "b")
		began := time.Now()
		if err := <-ask("one", "c"); !errors.Is(err, errBusy) || time.Since(began) > changesWait {
			t.Errorf("a second comparison of a repository: %v after %s", err, time.Since(began))
		}
		if err := <-again; !errors.Is(err, errBusy) {
			t.Error(err)
		}
		second := ask("two", "b")
		again = ask("one", "b")
		if err := <-ask("three", "b"); !errors.Is(err, errBusy) || from.made != 2 {
			t.Errorf("a third comparison: %v, %d were begun", err, from.made)
		}
		<-again
		again = ask("one", "b")
		close(from.finish)
		for _, one := range []<-chan error{first, second, again} {
			if err := <-one; err != nil {
				t.Error(err)
			}
		}
		if from.made != 2 {
			t.Errorf("%d comparisons of two changes", from.made)
		}
	})
}

// TestKeptChanges: the pages that are kept have a limit together.
func TestKeptChanges(t *testing.T) {
	t.Parallel()
	c := newChanges(nil)
	for i := range 2 * changesKept {
		c.keep(fmt.Sprint(i), make([]byte, changesLarge-1))
	}
	kept := 0
	for _, key := range c.cache.Keys() {
		data, _ := c.cache.Peek(key)
		kept += len(data)
	}
	if _, newest := c.get(fmt.Sprint(2*changesKept - 1)); kept > changesBytes || kept < changesBytes/2 ||
		kept != c.bytes || !newest {
		t.Errorf("%d bytes are kept, %d are counted, the newest page is kept: %t", kept, c.bytes, newest)
	}
}

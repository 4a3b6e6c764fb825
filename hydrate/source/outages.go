package source

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// outages notes that the content of a view could not be read completely, because a repository cannot be reached.
// Reading again can help, so such a view is not used twice. It is safe for concurrent use once repositories is set.
type outages struct {
	repositories []*fleet.Repository
	seen         atomic.Bool
}

func (o *outages) note() { o.seen.Store(true) }

func (o *outages) any() bool { return o.seen.Load() }

// lacks implements gitstore.Snapshot.OnLack. Content of another repository gets an error that names the repository,
// because the pin alone says where a file comes from.
func (o *outages) lacks(name string, err error) error {
	if errors.Is(err, gitstore.ErrMalformed) || errors.Is(err, fs.ErrInvalid) { // the commit's fault: it stays
		return err
	}
	o.note()
	if !errors.Is(err, gitstore.ErrNotFound) {
		return err
	}
	for _, r := range o.repositories {
		if r.Name == fleet.RepositoryOf(name) {
			return &lackError{r, err}
		}
	}
	return err
}

// lackError is content of another repository that is not in the store and cannot be fetched.
type lackError struct {
	of    *fleet.Repository
	cause error
}

// Unreachable reports whether an error is of content of another repository that is not in the store and cannot be
// fetched.
func Unreachable(err error) bool {
	_, ok := errors.AsType[*lackError](err)
	return ok
}

// Error names the repository, the cause, and the next step.
func (e *lackError) Error() string {
	return fmt.Sprintf("repository %s cannot be read: %v (run it again when the repository can be reached)", e.of.Name,
		gitstore.Refusal(e.cause, e.of.URL))
}

// Unwrap returns the error of the store.
func (e *lackError) Unwrap() error { return e.cause }

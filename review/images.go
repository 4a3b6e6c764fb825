package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/report"
)

const (
	reviewImages    = 500         // that one review looks for
	imagesAtOnce    = 4           // questions to registries
	imagesTime      = time.Minute // of all questions of a review
	ruleImageExists = "image-exists"
)

// missingImages looks for the new images of a comparison, as the rulebook's spec.images asks, and adds a finding for
// each that its registry does not have. A registry that does not answer, or hides what it has, is a note.
func missingImages(ctx context.Context, images session.Images, c *compare.Comparison, out *report.Findings) error {
	patterns := c.Rulebook().Spec.Images.MustExist
	wanted := slices.DeleteFunc(slices.Clone(c.NewImages), func(i diff.NewImage) bool {
		return !mustExist(patterns, i.Image)
	})
	var names []string
	for i := range wanted {
		names = append(names, wanted[i].Image)
	}
	missing, notes, err := MissingImages(ctx, images, slices.Compact(names)) // NewImages are sorted by it
	if err != nil {
		return err
	}
	files := sources(c)
	for i := range wanted {
		w := &wanted[i]
		if missing[w.Image] == nil {
			continue
		}
		out.Advisory = false
		out.Introduced = append(out.Introduced, report.Finding{
			Rule: ruleImageExists, Severity: report.SeverityError, Message: missing[w.Image].Error(),
			Hint: "push the image, then review again (`/sluice retry` in a comment), or correct the name", Object: w.Object, App: w.App,
			Environment: w.Environment, Clusters: w.Clusters, File: files[w.App],
		})
	}
	out.Notes = append(out.Notes, notes...)
	return nil
}

// MissingImages returns those of the images that their registries do not have, with the error of each, and notes about
// images of which it is not known.
func MissingImages(ctx context.Context, images session.Images, names []string) (map[string]error, []string, error) {
	if len(names) == 0 {
		return nil, nil, nil
	}
	found, err := look(ctx, images, names)
	if err != nil {
		return nil, nil, err
	}
	missing := map[string]error{}
	for name, err := range found {
		if errors.Is(err, fetch.ErrNotFound) {
			missing[name] = err
		}
	}
	return missing, openQuestions(names, found), nil
}

// openQuestions returns notes about images that may exist or not, one for each reason.
func openQuestions(names []string, found map[string]error) []string {
	var reasons []string
	of := map[string][]string{}
	for _, n := range names {
		err := found[n]
		if err == nil || errors.Is(err, fetch.ErrNotFound) {
			continue
		}
		if of[err.Error()] == nil {
			reasons = append(reasons, err.Error())
		}
		of[err.Error()] = append(of[err.Error()], n)
	}
	var out []string
	for _, reason := range reasons {
		list := of[reason]
		if len(list) == 1 {
			out = append(out, fmt.Sprintf("it is not known whether the image %s exists: %s", list[0], reason))
			continue
		}
		out = append(out, fmt.Sprintf("it is not known whether %d images exist, such as %s: %s", len(list), list[0], reason))
	}
	return out
}

// look asks for images. It asks a registry that did not answer no second time.
func look(ctx context.Context, images session.Images, names []string) (map[string]error, error) {
	var mu sync.Mutex
	out, silent := map[string]error{}, map[string]error{}
	limited, cancel := context.WithTimeout(ctx, imagesTime)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(imagesAtOnce)
	for n, image := range names {
		host, _, _ := strings.Cut(image, "/")
		group.Go(func() error {
			mu.Lock()
			err := silent[host]
			mu.Unlock()
			switch {
			case n >= reviewImages:
				err = fmt.Errorf("a review looks for %d images at most", reviewImages)
			case limited.Err() != nil:
				err = fmt.Errorf("the registries took longer than %s", imagesTime)
			case err == nil:
				err = images.Image(limited, image)
			}
			mu.Lock()
			defer mu.Unlock()
			out[image] = err
			if errors.Is(err, fetch.ErrUnavailable) {
				silent[host] = err
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in out
	return out, ctx.Err()
}

// mustExist reports whether one of the patterns matches the repository of an image.
func mustExist(patterns []string, image string) bool {
	repository := diff.SplitImage(image).Repository
	if path.Clean(repository) != repository {
		return false
	}
	if fleet.MatchesAny(patterns, repository) {
		return true
	}
	// Docker Hub's images have short names: acme/web is docker.io/acme/web
	if short, ok := strings.CutPrefix(repository, dockerHub); ok {
		return fleet.MatchesAny(patterns, short) || fleet.MatchesAny(patterns, strings.TrimPrefix(short, "library/"))
	}
	first, _, nested := strings.Cut(repository, "/")
	switch {
	case !nested:
		return fleet.MatchesAny(patterns, dockerHub+"library/"+repository)
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return false // the name of a registry
	}
	return fleet.MatchesAny(patterns, dockerHub+repository)
}

const dockerHub = "docker.io/"

// imageAnswer is the answer to askImage.
type imageAnswer struct {
	Kind string // of imageKinds; "" if the image exists
	Text string // of the error
}

// imageKinds are the kinds of errors that cross the boundary of the worker process.
func imageKinds() map[string]error {
	return map[string]error{
		"not found": fetch.ErrNotFound, "denied": fetch.ErrDenied, "unavailable": fetch.ErrUnavailable,
		"invalid": fetch.ErrInvalid,
	}
}

// imageError is an error of Images on the other side of the boundary.
type imageError struct {
	text string
	kind error
}

// Error implements error.
func (e *imageError) Error() string { return e.text }

// Unwrap returns the kind.
func (e *imageError) Unwrap() error { return e.kind }

// askedImages asks the parent.
type askedImages struct{ ask worker.Ask }

// Image implements session.Images.
func (a askedImages) Image(ctx context.Context, image string) error {
	var out imageAnswer
	if err := askJSON(ctx, a.ask, askImage, image, &out); err != nil {
		return err
	}
	if out.Kind == "" {
		return nil
	}
	return &imageError{out.Text, imageKinds()[out.Kind]}
}

// image answers askImage. It asks registries only for images that the trunk wants to exist, and only as many as a review
// needs: a change must not choose where requests go.
func (p *parent) image(ctx context.Context, input []byte) ([]byte, error) {
	var image string
	if err := json.Unmarshal(input, &image); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.asked++
	many := p.asked > reviewImages
	p.mu.Unlock()
	if many || !mustExist(p.images, image) {
		return nil, errors.New("the review does not ask for this image")
	}
	out := imageAnswer{}
	switch err := p.session.Images().Image(ctx, image); {
	case err == nil:
	case ctx.Err() != nil:
		return nil, err
	default:
		out = imageAnswer{"unavailable", err.Error()}
		for name, kind := range imageKinds() {
			if errors.Is(err, kind) {
				out.Kind = name
			}
		}
	}
	return json.Marshal(out)
}

package fetch

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestImage(t *testing.T) {
	t.Parallel()
	s := newOCI(t)
	s.push(t, "1.2.3", "")
	where, err := Ref{"", s.chart(), "1.2.3"}.place()
	if err != nil {
		t.Fatal(err)
	}
	_, manifest, err := chartManifest(t.Context(), newFetcher(t), *where.oci, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	digest := digestOf(manifest)
	image := hostOf(s.Server) + "/charts/web"
	known := NewKnownImages()
	f := newFetcher(t, func(o *Options) { o.KnownImages = known })
	for ref, want := range map[string]error{
		image + ":1.2.3":           nil,
		image + "@" + digest:       nil,
		image + ":1.2.3@" + digest: nil,
		image + ":1.2.4":           ErrNotFound,
		image:                      ErrNotFound, // latest
		image + "@sha256:" + strings.Repeat("0", 64): ErrNotFound,
		hostOf(s.Server) + "/charts/other:1.2.3":     ErrNotFound,
		"UPPER/case:1":                               ErrNotFound,
		"${registry}/web:1":                          ErrNotFound, image + ":": ErrNotFound, image + ":1.2.3+build5": ErrNotFound,
	} {
		if err := f.Image(t.Context(), ref); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", ref, err, want)
		}
	}
	for status, want := range map[int]error{
		http.StatusForbidden: ErrDenied, http.StatusUnauthorized: ErrDenied, http.StatusBadGateway: ErrUnavailable,
	} {
		s.set(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			return true
		})
		if err := f.Image(t.Context(), image+":9"); !errors.Is(err, want) {
			t.Errorf("status %d: got %v, want %v", status, err, want)
		}
		// what the registry had before is not asked for again
		if err := f.Image(t.Context(), image+":1.2.3"); err != nil {
			t.Errorf("status %d, an image that is known: got %v, want none", status, err)
		}
	}
	s.set(nil)
	if err := newFetcher(t).Image(t.Context(), image+":1.2.3"); err != nil || s.asked("blobs") > 0 {
		t.Errorf("an image is looked up without a download: got %v and %d requests for layers", err, s.asked("blobs"))
	}
}

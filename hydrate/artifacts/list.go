package artifacts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// ListTag is the tag of the list of published commits in the fleet's repository.
const ListTag = "published"

const (
	listConfigType = "application/vnd.sluice.published.v1+json"
	listLayerType  = "application/vnd.sluice.published.v1+text"
	maxList        = 4 << 20
)

// list maps the keys of clusters to the commits of their branches that are published.
type list map[string]gitstore.Hash

// terms are what being published means for a list. A list of other terms says nothing.
type terms struct {
	Tag string `json:"tag"` // that moves with the branches
	// of waves, too
	Waves bool   `json:"waves,omitempty"`
	Key   string `json:"key,omitempty"` // digest of what verifies signatures; "" without signatures
}

// artifact returns the list as an artifact: a line for each cluster, by name. Equal lists give equal bytes.
func (l list) artifact(t terms) (*artifact, error) {
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&text, "%s %s\n", name, l[name])
	}
	config, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	out := &artifact{config: newBlob(listConfigType, config), layer: newBlob(listLayerType, text.Bytes())}
	out.manifest, err = manifestOf(out.config, nil, out.layer)
	return out, err
}

// parseList reads lines of a list. A list that is not one is empty: it only saves requests.
func parseList(text []byte) list {
	out := list{}
	for line := range strings.Lines(string(text)) {
		cluster, commit, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		hash, err := gitstore.ParseHash(commit)
		if err != nil || cluster == "" {
			return list{}
		}
		out[cluster] = hash
	}
	return out
}

// readList reads the list of a registry. expected is what it has if everything is published, which is then known by
// one request. A list that does not exist, or is not one, is empty.
func readList(ctx context.Context, r Registry, expected list, t terms) (list, error) {
	want, err := expected.artifact(t)
	if err != nil {
		return nil, err
	}
	has, err := r.Resolve(ctx, ListTag)
	switch {
	case err != nil:
		return unreadable(err)
	case has.Digest == want.manifest.Digest:
		return maps.Clone(expected), nil
	}
	_, data, err := r.Manifest(ctx, ListTag)
	if err != nil {
		return unreadable(err)
	}
	var m ocispec.Manifest
	if json.Unmarshal(data, &m) != nil || m.Config.Digest != want.config.Digest || len(m.Layers) != 1 ||
		m.Layers[0].MediaType != listLayerType {
		return list{}, nil //nolint:nilerr // documented
	}
	text, err := r.Blob(ctx, m.Layers[0], maxList)
	if err != nil {
		return unreadable(err)
	}
	return parseList(text), nil
}

// unreadable returns an empty list if the registry answered that the list does not exist, that it is malformed, or that
// access is denied: many registries deny access to what does not exist. It returns any other error.
func unreadable(err error) (list, error) {
	if errors.Is(err, fetch.ErrUnavailable) || !ofRegistry(err) {
		return nil, err
	}
	return list{}, nil
}

// write stores the list.
func (l list) write(ctx context.Context, r Registry, t terms) error {
	a, err := l.artifact(t)
	if err != nil {
		return err
	}
	return a.push(ctx, r, ListTag)
}

// push stores an artifact under a tag: first what the manifest names, then the manifest.
func (a *artifact) push(ctx context.Context, r Registry, tag string) error {
	for _, b := range []blob{a.config, a.layer} {
		if err := r.Upload(ctx, b.Descriptor, b.data); err != nil {
			return err
		}
	}
	return r.Tag(ctx, a.manifest.Descriptor, a.manifest.data, tag)
}

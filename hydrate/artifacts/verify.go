package artifacts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1" //nolint:gosec // it names Git's objects
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Statuses of a Verification.
const (
	VerifyOK      = "ok"      // the artifact has what the branch has
	VerifyMissing = "missing" // there is no artifact
	VerifyBehind  = "behind"  // the tag leads to the artifact of another commit of the branch
	VerifyHeld    = "held"    // the same, because the branch has what Sluice does not publish
	VerifyDiffers = "differs" // the artifact is not what Sluice pushes for the commit
	// the artifact is not signed with the key or by the identity of the fleet
	VerifyUnsigned = "unsigned"
	VerifyFailed   = "failed" // the registry could not be read
)

// Difference is a file in which an artifact differs from the branch.
type Difference struct {
	Path   string `json:"path"`
	Effect string `json:"effect"` // added, removed or changed, relative to the branch
}

// Verification compares the artifact of a cluster with its branch.
type Verification struct {
	Cluster     string       `json:"cluster"`
	Repository  string       `json:"repository"`
	Branch      string       `json:"branch"`
	Commit      string       `json:"commit"` // of the branch
	Digest      string       `json:"digest,omitempty"`
	Status      string       `json:"status"`
	Reason      string       `json:"reason,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
}

// Bounds of a verification.
const (
	maxDifferences = 20
	readers        = 4 // artifacts that are read at the same time; each may have maxLayer bytes
)

// Verify compares the artifacts of clusters with their branches, file by file; no clusters means all. It trusts
// nothing of the registry, and writes nothing.
func Verify(ctx context.Context, c Config, clusters []string) ([]Verification, error) {
	p := &publisher{Config: c, options: Options{Clusters: clusters, Rebuild: true}}
	if err := p.readRefs(ctx); err != nil {
		return nil, err
	}
	due := p.due()
	check := admission{config: c, refs: p.refs, states: map[string]*stage{}}
	if err := check.fetch(ctx, due); err != nil {
		return nil, err
	}
	out := make([]Verification, len(due))
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, cluster := range due {
		commit, err := c.Hydrator.Store.Commit(ctx, p.refs[c.Fleet.ClusterBranch(cluster)])
		if err != nil {
			return nil, err
		}
		group.Go(func() error {
			v := verifier{Config: c, cluster: cluster, commit: commit}
			if err := v.run(limited); err != nil {
				return err
			}
			out[i] = v.found
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, cluster := range due { // the cause is in Git, which the checks read one after the other
		if out[i].Status != VerifyBehind && out[i].Status != VerifyMissing {
			continue
		}
		_, reason, err := check.check(ctx, cluster)
		if err != nil {
			return nil, err
		}
		if reason != "" {
			out[i].Status, out[i].Reason = VerifyHeld, reason
		}
	}
	return out, nil
}

// verifier verifies the artifact of one cluster.
type verifier struct {
	Config
	cluster *fleet.Cluster
	commit  gitstore.Commit
	found   Verification
}

// run returns the errors of Git. Those of the registry are findings.
func (v *verifier) run(ctx context.Context) error {
	f := v.Fleet
	v.found = Verification{
		Cluster: v.cluster.Name, Repository: f.Artifact(v.cluster), Branch: f.ClusterBranch(v.cluster),
		Commit: v.commit.Hash.String(), Status: VerifyOK,
	}
	registry, err := v.Registries(v.found.Repository)
	if err == nil {
		err = v.artifact(ctx, registry)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil || !ofRegistry(err):
		return err
	case errors.Is(err, fetch.ErrDigest):
		v.set(VerifyDiffers, "%s", err)
	default:
		v.set(VerifyFailed, "%s", err)
	}
	return nil
}

func (v *verifier) set(status, format string, args ...any) {
	v.found.Status, v.found.Reason = status, fmt.Sprintf(format, args...)
}

// artifact verifies what the moving tag leads to.
func (v *verifier) artifact(ctx context.Context, r Registry) error {
	tag := v.Fleet.ArtifactTag()
	desc, data, err := r.Manifest(ctx, tag)
	if errors.Is(err, fetch.ErrNotFound) {
		v.set(VerifyMissing, "there is no artifact with the tag %s (sluice publish)", tag)
		return nil
	}
	if err != nil {
		return err
	}
	v.found.Digest = desc.Digest.String()
	var m ocispec.Manifest
	if json.Unmarshal(data, &m) != nil || m.Config.MediaType != configType || len(m.Layers) != 1 ||
		m.Layers[0].MediaType != layerType {
		v.set(VerifyDiffers, "the tag %s leads to something else than an artifact of Sluice", tag)
		return nil //nolint:nilerr // it is a finding
	}
	want := revisionOf(v.found.Branch, v.commit.Hash)
	if has := m.Annotations[ocispec.AnnotationRevision]; has != want {
		v.set(VerifyBehind, "the tag %s leads to %s, the branch has %s (sluice publish)", tag, safetext.Brief(has, 200), v.commit.Hash.Short())
		return nil
	}
	layer, err := r.Blob(ctx, m.Layers[0], maxLayer)
	if err != nil {
		return err
	}
	if err := v.content(ctx, layer); err != nil || v.found.Status != VerifyOK {
		return err
	}
	own, err := resolve(ctx, r, v.commit.Hash.String())
	if err == nil && own != v.found.Digest {
		v.set(VerifyDiffers, "the tag of the commit leads to another artifact than %s (sluice publish)", tag)
	}
	if err != nil || v.Keys == nil || v.found.Status != VerifyOK {
		return err
	}
	signatures, err := v.Keys.evidence(ctx, r, data)
	if err != nil {
		return err
	}
	if err := v.Keys.trusted.VerifyManifest(signatures); err != nil {
		v.set(VerifyUnsigned, "%s (sluice publish)", safetext.Brief(err.Error(), 400))
	}
	return nil
}

// content compares the files of a layer with those of the branch.
func (v *verifier) content(ctx context.Context, layer []byte) error {
	files, err := filesOf(v.Hydrator.Store.Snapshot(ctx, v.commit.Tree))
	if err != nil {
		return err
	}
	want := map[string]file{}
	for _, f := range files {
		if !f.mode.IsDir() {
			want[f.path] = f
		}
	}
	differences, err := compareLayer(layer, want)
	if err != nil {
		v.set(VerifyDiffers, "its content is not an archive of files: %s", err)
		return nil
	}
	if len(differences) > 0 {
		v.set(VerifyDiffers, "its files are not those of the branch (sluice publish)")
		slices.SortFunc(differences, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
		v.found.Differences = differences[:min(len(differences), maxDifferences)]
	}
	return nil
}

// errTooLarge is the error for a layer that has more than any branch.
var errTooLarge = errors.New("it is larger than a branch may be")

// compareLayer compares an archive with files, and keeps none of its content.
func compareLayer(layer []byte, want map[string]file) ([]Difference, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		return nil, errors.New("it is not compressed with gzip")
	}
	bounded := &io.LimitedReader{R: unpacked, N: maxContent + maxContent/4}
	left, seen := maps.Clone(want), map[string]bool{}
	var out []Difference
	for archive := tar.NewReader(bounded); ; {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			for path := range left {
				out = append(out, Difference{path, "removed"})
			}
			return out, nil
		case bounded.N <= 0:
			return nil, errTooLarge
		case err != nil:
			return nil, errors.New("it is not an archive")
		case h.Typeflag == tar.TypeDir:
			continue
		case len(out) > maxDifferences*4: // enough is known
			return out, nil
		}
		f, ok := left[h.Name]
		if !ok || h.Typeflag != tar.TypeReg || seen[h.Name] {
			out = append(out, Difference{safetext.Brief(h.Name, 300), "added"})
			continue
		}
		sum := sha1.New() //nolint:gosec // it names Git's objects
		fmt.Fprintf(sum, "blob %d\x00", h.Size)
		if _, err := io.Copy(sum, archive); err != nil { //nolint:gosec // bounded limits it
			return nil, errors.New("it is cut")
		}
		delete(left, h.Name)
		seen[h.Name] = true
		if hex.EncodeToString(sum.Sum(nil)) != f.hash.String() || h.FileInfo().Mode().Perm() != f.mode.Perm() {
			out = append(out, Difference{h.Name, "changed"})
		}
	}
}

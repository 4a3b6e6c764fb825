package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// reference names the program that builds a repository with Flux's own libraries. They are not linked into sluice: they need Helm's actions
// and a Kubernetes client, and a second path inside this binary would share most of its code with the first one.
const reference = "sluice-reference-flux"

// referenceRequest is what the reference program reads. It may change the files of Dir.
type referenceRequest struct {
	Dir      string                      `json:"dir"`
	Entry    fleet.Import                `json:"entry"`
	Clusters map[string]referenceCluster `json:"clusters"`
}

type referenceCluster struct {
	KubeVersion string   `json:"kubeVersion,omitempty"`
	APIVersions []string `json:"apiVersions,omitempty"`
}

// referenceApp is what the tool applies for an app.
type referenceApp struct {
	Objects   []manifest.Object `json:"objects"`
	Namespace string            `json:"namespace"` // of namespaced objects that name none
	Error     string            `json:"error"`
	Skipped   string            `json:"skipped"` // why the reference cannot build it
}

// comparison counts what was compared and holds what was not equal.
type comparison struct {
	Objects     int      `json:"objects"` // equal ones
	Apps        int      `json:"apps"`
	Differences []string `json:"differences"`
	NotCompared []string `json:"notCompared"`
	Unread      []string `json:"unread"` // apps that Sluice cannot render, whatever Flux does with them
}

// checkImport builds the import again with the reference program, and compares every object.
func (i *importOptions) checkImport(ctx context.Context, s *app.Session, tree gitstore.Hash, f *fleet.Fleet, o IO) error {
	var empty []string // clusters
	result := comparison{Differences: []string{}, NotCompared: []string{}, Unread: []string{}}
	for n, entry := range f.Spec.Import {
		if entry.Flux == nil {
			return fmt.Errorf("spec.import[%d]: --check compares imports of Flux only: Argo CD generates manifests in its repository server, which has no library or program for use without a cluster", n)
		}
		theirs, err := runReference(ctx, s.Store.Snapshot(ctx, tree), f, entry)
		if err != nil {
			return err
		}
		for _, cluster := range slices.Sorted(maps.Keys(entry.Flux.Clusters)) {
			ours, err := i.sluiceApps(ctx, s, tree, f, n, cluster)
			if err != nil {
				return err
			}
			for _, name := range entry.Exclude { // the fleet describes it
				delete(theirs[cluster], name)
			}
			before := result.Objects
			result.cluster(cluster, ours, theirs[cluster])
			if result.Objects == before && len(ours) > 0 {
				empty = append(empty, cluster)
			}
		}
	}
	if err := i.showComparison(&result, o); err != nil {
		return err
	}
	switch {
	case len(result.Differences) > 0:
		return fmt.Errorf("the import differs from %s: %s", reference, count(len(result.Differences), "difference"))
	case len(result.Unread) > 0:
		return fmt.Errorf("%s cannot be read: nothing shows that Flux builds the same", count(len(result.Unread), "app"))
	case len(empty) > 0:
		return fmt.Errorf("nothing was compared on %s: no imported object is built by both sides", strings.Join(empty, ", "))
	case result.Objects == 0:
		return errors.New("nothing was compared: no imported object is built by both sides")
	}
	return nil
}

func (i *importOptions) showComparison(c *comparison, o IO) error {
	if i.structured() {
		return i.encode(o.Out, c)
	}
	for _, line := range c.NotCompared {
		fmt.Fprintf(o.Out, "not compared  %s\n", safetext.Lines(line))
	}
	for _, line := range c.Unread {
		fmt.Fprintf(o.Out, "cannot read   %s\n", safetext.Lines(line))
	}
	for _, line := range c.Differences {
		fmt.Fprintf(o.Out, "differs       %s\n", safetext.Lines(line))
	}
	_, err := fmt.Fprintf(o.Out, "%s of %s equal, %s, %s not compared\n", count(c.Objects, "object"), count(c.Apps, "app"), count(len(c.Differences), "difference"), count(len(c.NotCompared), "app"))
	return err
}

// sluiceApps renders the apps of an entry on a cluster. A failed app has its Error, a suspended one is left out.
func (i *importOptions) sluiceApps(ctx context.Context, s *app.Session, tree gitstore.Hash, f *fleet.Fleet, entry int, cluster string) (map[string]referenceApp, error) {
	shown, err := s.Show(ctx, tree, cluster, "")
	if err != nil {
		return nil, err
	}
	out := map[string]referenceApp{}
	for _, t := range f.Imports() { // an app of the fleet's own is not compared
		if t.Entry == entry && t.Cluster == cluster && !t.Suspended {
			out[t.App] = referenceApp{}
		}
	}
	for _, m := range shown.Manifests {
		one, ok := out[appOf(m)]
		if !ok {
			continue
		}
		objects, err := manifest.Decode(m.Data, manifest.DefaultBudget())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		one.Objects = append(one.Objects, objects...)
		out[appOf(m)] = one
	}
	for _, failure := range shown.Failures {
		if _, ok := out[failure.App]; ok {
			out[failure.App] = referenceApp{Error: failure.Message}
		}
	}
	return out, nil
}

// runReference writes the commit's files to a temporary directory and has the reference program build them.
func runReference(ctx context.Context, tree *gitstore.Snapshot, f *fleet.Fleet, entry fleet.Import) (map[string]map[string]referenceApp, error) {
	program, err := exec.LookPath(reference)
	if err != nil {
		return nil, fmt.Errorf("--check needs the program %s in PATH (build it in a clone of Sluice: go build -C tools/gitops -o \"$HOME/bin/\" ./%s)", reference, reference)
	}
	dir, err := os.MkdirTemp("", "sluice-check")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a copy
	if err := copyFiles(dir, tree); err != nil {
		return nil, fmt.Errorf("copying the commit: %w", err)
	}
	request := referenceRequest{Dir: dir, Entry: entry, Clusters: map[string]referenceCluster{}}
	for _, c := range f.Clusters {
		request.Clusters[c.Name] = referenceCluster{KubeVersion: c.KubeVersion, APIVersions: c.APIVersions}
	}
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program) //nolint:gosec // the user put it in PATH
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", reference, err, safetext.Message(strings.TrimSpace(errs.String()), failureLines, failureWidth))
	}
	var answer struct {
		Clusters map[string]map[string]referenceApp `json:"clusters"`
	}
	decoder := json.NewDecoder(&out)
	decoder.UseNumber() // large integers keep their digits
	if err := decoder.Decode(&answer); err != nil {
		return nil, fmt.Errorf("the answer of %s: %w (build it from the release of this sluice)", reference, err)
	}
	return answer.Clusters, nil
}

// copyFiles writes the regular files of a commit. source-controller leaves out symbolic links too, and a link could lead the reference out of
// the directory.
func copyFiles(dir string, tree fs.FS) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, filepath.FromSlash(name)), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), data, 0o600)
	})
}

// cluster compares the apps of one cluster.
func (c *comparison) cluster(name string, ours, theirs map[string]referenceApp) {
	names := slices.Concat(slices.Collect(maps.Keys(ours)), slices.Collect(maps.Keys(theirs)))
	slices.Sort(names)
	for _, app := range slices.Compact(names) {
		at := name + "/" + app
		mine, have := ours[app]
		other, built := theirs[app]
		switch {
		case have && built && mine.Error != "" && other.Skipped != "":
			c.Unread = append(c.Unread, at+": "+mine.Error)
		case built && other.Skipped != "":
			c.NotCompared = append(c.NotCompared, at+": "+other.Skipped)
		case have && built && mine.Error != "" && other.Error != "":
			c.Unread = append(c.Unread, at+": both sides fail: "+mine.Error)
		case !built:
			c.differ("%s: Sluice imports it, Flux does not apply it", at)
		case !have:
			c.differ("%s: Flux applies it, Sluice does not import it", at)
		case mine.Error != "":
			c.differ("%s: Flux builds it, Sluice does not: %s", at, mine.Error)
		case other.Error != "":
			c.differ("%s: Sluice renders it, Flux does not build it: %s", at, other.Error)
		default:
			c.Apps++
			c.objects(at, mine.Objects, other.Objects, other.Namespace)
		}
	}
}

func (c *comparison) differ(format string, args ...any) {
	c.Differences = append(c.Differences, fmt.Sprintf(format, args...))
}

// objects compares object by object. Sluice writes the namespace of every namespaced object, the tool leaves it to the API server, which adds
// the namespace of the app.
func (c *comparison) objects(at string, ours, theirs []manifest.Object, namespace string) {
	left := map[manifest.Identity][]manifest.Object{}
	for _, o := range ours {
		left[o.Identity()] = append(left[o.Identity()], o)
	}
	for _, want := range theirs {
		id, got := taken(left, want, namespace)
		switch {
		case got == nil:
			c.differ("%s: Flux applies %s, Sluice does not render it", at, want.Identity())
		case !equalObjects(got, want):
			c.differ("%s: %s is not equal", at, id)
		default:
			c.Objects++
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(left), func(a, b manifest.Identity) int { return strings.Compare(a.String(), b.String()) }) {
		c.differ("%s: Sluice renders %s, Flux does not apply it", at, id)
	}
}

// taken removes the object of the same identity, or the one to which the app's namespace was added, and returns it.
func taken(left map[manifest.Identity][]manifest.Object, want manifest.Object, namespace string) (manifest.Identity, manifest.Object) {
	at := want.Identity()
	if len(left[at]) == 0 && at.Namespace == "" {
		at.Namespace = namespace
	}
	list := left[at]
	if len(list) == 0 {
		return at, nil
	}
	if left[at] = list[1:]; len(list) == 1 {
		delete(left, at)
	}
	return at, list[0]
}

func equalObjects(ours, theirs manifest.Object) bool {
	if theirs.Namespace() == "" && ours.Namespace() != "" {
		metadata, _ := ours["metadata"].(map[string]any) // a map: Namespace read a value of it
		metadata = maps.Clone(metadata)
		delete(metadata, "namespace")
		ours = maps.Clone(ours)
		ours["metadata"] = metadata
	}
	a, failed := json.Marshal(ours)
	b, wrong := json.Marshal(theirs)
	return failed == nil && wrong == nil && bytes.Equal(a, b)
}

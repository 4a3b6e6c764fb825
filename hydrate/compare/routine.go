package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Routine says what the changed files of a comparison are, as far as their text tells.
type Routine struct {
	Other  string // the first change that is neither a version nor a value of an app; "" if there is none
	Charts string // the first change that is not a patch version of a chart; "" if there is none
}

// Rulebook returns the fleet whose settings apply to the comparison: that of the base, so that a change cannot choose
// its own.
func (c *Comparison) Rulebook() *fleet.Fleet { return c.run.outputs }

// Partial reports whether a part of the fleet was not compared, or no commit was compared with.
func (c *Comparison) Partial() bool {
	r := &c.run.request
	return r.Against != AgainstCommit || r.TargetsOnly || c.run.views[0] == nil ||
		len(r.Apps)+len(r.Clusters)+len(r.Environments)+len(r.Without) > 0
}

// Routine looks at the changed files, except those that match a pattern. It needs two commits.
func (c *Comparison) Routine(ctx context.Context, except []string) (Routine, error) {
	if c.run.views[0] == nil {
		const unknown = "there is no base to compare with"
		return Routine{unknown, unknown}, nil
	}
	claims, err := c.run.h.Claims(ctx, c.run.views[0], c.run.views[1])
	if err != nil {
		return Routine{}, err
	}
	f, apps := &versions{}, map[string]bool{}
	for i, v := range c.run.views {
		f.trees[i] = v.Files(ctx)
		for _, a := range v.Fleet.Apps {
			f.apps = append(f.apps, a.File)
			apps[a.Name] = true
		}
	}
	var out Routine
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		if fleet.MatchesAny(except, name) {
			continue
		}
		look := f.look
		if name == fetch.LockFile {
			look = f.lock
		}
		other, charts := look(name, claims[name])
		if c.Frozen > 0 && c.run.onlyFrozen(name, apps) {
			other = name + " changes, which only frozen clusters read"
			charts = other
		}
		if out.Other == "" {
			out.Other = other
		}
		if out.Charts == "" {
			out.Charts = charts
		}
	}
	return out, ctx.Err()
}

// onlyFrozen reports whether all targets that read a changed file are on frozen clusters, so that nothing shows what it
// changes there.
func (c *run) onlyFrozen(name string, apps map[string]bool) bool {
	base, head := c.views[0], c.views[1]
	found, any := c.h.Readers(base, head, name, apps)
	for target := range found {
		cluster, ok := head.Fleet.Cluster(target[0])
		any = any || !ok || !cluster.Frozen()
	}
	return !any && len(found) > 0
}

// versions looks for changed versions in files.
type versions struct {
	trees [2]*gitstore.Snapshot
	apps  []string // files that declare apps
}

// look returns the first change of a file that a review of images, and one of charts, does not expect.
func (f *versions) look(name string, claim fleet.Claim) (other, charts string) {
	if claim == fleet.ClaimedByNothing {
		other = name + " changes, which no target reads"
		return other, other
	}
	leaves, err := f.leaves(name)
	if err != nil {
		other = name + ": " + err.Error()
		return other, other
	}
	declares := claim == fleet.ClaimedByDeclaration || slices.Contains(f.apps, name)
	if declares && !slices.Contains(f.apps, name) {
		other = name + " changes"
	}
	for _, l := range leaves {
		if why := l.patch(path.Base(name)); why != "" && charts == "" {
			charts = fmt.Sprintf("%s: %s %s", name, l.path, why)
		}
		if declares && other == "" && !versionKey.MatchString(l.path) {
			other = fmt.Sprintf("%s: %s changes", name, l.path)
		}
	}
	if other != "" && charts == "" && declares && !slices.Contains(f.apps, name) {
		charts = other
	}
	return other, charts
}

// lockField matches the fields of a locked chart.
var lockField = regexp.MustCompile(`^(charts\.\d+)\.(version|resolved|digest)$`)

// lock is look for sluice.lock: a digest changes only with the version that it belongs to.
func (f *versions) lock(name string, _ fleet.Claim) (other, charts string) {
	leaves, err := f.leaves(name)
	if err != nil {
		other = name + ": " + err.Error()
		return other, other
	}
	resolved := map[string]bool{}
	for _, l := range leaves {
		if m := lockField.FindStringSubmatch(l.path); m != nil && m[2] == "resolved" {
			resolved[m[1]] = true
		}
	}
	for _, l := range leaves {
		m := lockField.FindStringSubmatch(l.path)
		if m == nil || !resolved[m[1]] {
			other = fmt.Sprintf("%s: %s changes", name, l.path)
			return other, other
		}
		if m[2] == "resolved" && charts == "" {
			if why := l.step(); why != "" {
				charts = fmt.Sprintf("%s: %s %s", name, l.path, why)
			}
		}
	}
	return "", charts
}

// versionKey matches the fields of declarations that hold versions.
var versionKey = regexp.MustCompile(`(^|\.)(version|targetRevision|tag|image|newTag|digest)$`)

// chartVersion matches, by the kind of a document or the name of its file, the fields that hold a chart's version.
var chartVersion = map[string]*regexp.Regexp{ //nolint:gochecknoglobals // compiled once
	"App":            regexp.MustCompile(`^spec\.(source|sources\.\d+)\.helm\.version$`),
	"HelmRelease":    regexp.MustCompile(`^spec\.chart\.spec\.version$`),
	"HelmChart":      regexp.MustCompile(`^spec\.version$`),
	"OCIRepository":  regexp.MustCompile(`^spec\.ref\.tag$`),
	"Application":    regexp.MustCompile(`^spec\.(source|sources\.\d+)\.targetRevision$`),
	"ApplicationSet": regexp.MustCompile(`^spec\.template\.spec\.(source|sources\.\d+)\.targetRevision$`),
	"Chart.yaml":     regexp.MustCompile(`^(dependencies\.\d+\.version|version|appVersion)$`),
	"Kustomization":  regexp.MustCompile(`^helmCharts\.\d+\.version$`),
}

// leaf is a scalar of a YAML file that differs.
type leaf struct {
	kind     string // of its document
	path     string
	old, now any
}

// patch returns "" if the leaf is the version of a chart and only its patch version rises. Otherwise it says what
// happens.
func (l leaf) patch(file string) string {
	field := chartVersion[l.kind]
	if file == "Chart.yaml" {
		field = chartVersion[file]
	}
	switch {
	case file == "Chart.lock":
		return ""
	case field == nil || !field.MatchString(l.path):
		return "changes"
	case l.path == "appVersion":
		return ""
	}
	return l.step()
}

// step returns "" if the leaf is a version whose patch rises. Otherwise it says what it does.
func (l leaf) step() string {
	a, errA := semver.StrictNewVersion(strings.TrimPrefix(fmt.Sprint(l.old), "v"))
	b, errB := semver.StrictNewVersion(strings.TrimPrefix(fmt.Sprint(l.now), "v"))
	if errA != nil || errB != nil || a.Major() != b.Major() || a.Minor() != b.Minor() || !a.LessThan(b) ||
		b.Prerelease() != "" {
		return fmt.Sprintf("goes from %v to %v, which is no later patch version", l.old, l.now)
	}
	return ""
}

// leaves returns the scalars of a YAML file that differ between the commits. It returns an error if the file is not
// YAML with the same structure on both sides.
func (f *versions) leaves(name string) ([]leaf, error) {
	var sides [2][]any
	for i, tree := range f.trees {
		info, err := tree.Stat(name)
		if err != nil {
			return nil, errors.New("the file is added or removed")
		}
		if !info.Mode().IsRegular() {
			return nil, errors.New("it is not a file")
		}
		data, err := tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if len(data) > maxCompared || manifest.Check(data, manifest.DefaultBudget()) != nil {
			return nil, errors.New("it is not YAML that can be compared")
		}
		for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
			var document any
			if err = decoder.Decode(&document); err != nil {
				break
			}
			sides[i] = append(sides[i], document)
		}
		if !errors.Is(err, io.EOF) {
			return nil, errors.New("it is not YAML that can be compared")
		}
	}
	if len(sides[0]) != len(sides[1]) {
		return nil, errors.New("documents are added or removed")
	}
	var out []leaf
	for i := range sides[0] {
		kind := ""
		if m, ok := sides[1][i].(map[string]any); ok {
			kind, _ = m["kind"].(string)
		}
		if path.Base(name) == "kustomization.yaml" || path.Base(name) == "kustomization.yml" {
			kind = "Kustomization"
		}
		var err error
		if out, err = differing(out, kind, "", sides[0][i], sides[1][i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// differing adds the scalars that differ between two values of the same structure.
func differing(out []leaf, kind, at string, a, b any) ([]leaf, error) {
	in := func(key string) string { return strings.TrimPrefix(at+"."+key, ".") }
	var err error
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s changes its form", at)
		}
		for _, key := range slices.Sorted(maps.Keys(y)) {
			if _, ok := x[key]; !ok {
				return nil, fmt.Errorf("%s is added", in(key))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(x)) {
			if _, ok := y[key]; !ok {
				return nil, fmt.Errorf("%s is removed", in(key))
			}
			if out, err = differing(out, kind, in(key), x[key], y[key]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return nil, fmt.Errorf("%s changes its form", at)
		}
		for i := range x {
			if out, err = differing(out, kind, in(strconv.Itoa(i)), x[i], y[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	switch b.(type) {
	case map[string]any, []any:
		return nil, fmt.Errorf("%s changes its form", at)
	}
	if !reflect.DeepEqual(a, b) {
		out = append(out, leaf{kind, at, a, b})
	}
	return out, nil
}

package check

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/renderer/chartvalues"
)

// Charts returns the files of the chart of a resolved source, and nil if they are not at hand.
type Charts func(ctx context.Context, s *fleet.HelmSource) []chartvalues.File

// Position returns where a value of an imported target is set; line is 0 if that is unknown. explain.Imported implements
// it.
type Position func(f *fleet.Fleet, t fleet.Target, source string, at []string) (file string, line, column int, err error)

// OfTree reads charts that are folders of the fleet's tree.
func OfTree(f *fleet.Fleet) Charts {
	return func(_ context.Context, s *fleet.HelmSource) []chartvalues.File {
		if s.Chart != "" || s.Path == "" || s.Repository != "" {
			return nil
		}
		var out []chartvalues.File
		if !readChart(f, s.Path, "", &out) {
			return nil
		}
		return out
	}
}

// readChart reads the files below a folder of a chart that can read or declare values. It returns false if the folder
// cannot be read, or has too many.
func readChart(f *fleet.Fleet, root, below string, out *[]chartvalues.File) bool {
	const most = 5000
	entries, err := f.ReadDir(path.Join(root, below))
	if err != nil {
		return false
	}
	for _, e := range entries {
		name := path.Join(below, e.Name())
		switch {
		case f.IsDir(path.Join(root, below), e):
			if !readChart(f, root, name, out) {
				return false
			}
		case strings.HasSuffix(name, ".tgz"):
			*out = append(*out, chartvalues.File{Path: name})
		default:
			data, err := f.ReadFile(path.Join(root, name))
			if err != nil {
				return false
			}
			*out = append(*out, chartvalues.File{Path: name, Data: data})
		}
		if len(*out) > most {
			return false
		}
	}
	return true
}

// UnreadValues warns about values in the layers of targets that no template of a chart reads, such as `replica: 3` for
// a chart that has `replicaCount`. It warns only if no chart that a file reaches reads the value, and not if one of the
// charts is not at hand.
func UnreadValues(ctx context.Context, f *fleet.Fleet, targets []fleet.Target, charts Charts,
	position Position,
) fleet.Problems {
	u := unreadValues{
		fleet: f, charts: charts, position: position, known: map[string]*chartvalues.Chart{}, files: map[string]*layerUse{},
		given: givenValues{charts: map[string]map[string]bool{}, found: map[string]fleet.Problem{}},
	}
	for _, t := range targets {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller has the context
		}
		if t.Imported() == nil {
			u.target(ctx, t)
		} else {
			u.imported(ctx, t)
		}
	}
	return append(u.problems(), u.given.problems()...).Sorted()
}

type unreadValues struct {
	fleet    *fleet.Fleet
	charts   Charts
	position Position
	known    map[string]*chartvalues.Chart // by what names them; nil if they are not at hand
	files    map[string]*layerUse
	given    givenValues
}

// layerUse is a values file with what no chart reads that it has reached so far.
type layerUse struct {
	file   fleet.LayerFile
	seen   map[string]bool // charts
	unread map[string]chartvalues.Unread
	chart  string // a chart that does not read them
}

func (u *unreadValues) target(ctx context.Context, t fleet.Target) {
	selected, err := u.fleet.Select(t)
	if err != nil {
		return // reported elsewhere
	}
	for _, file := range selected.Values {
		if file.FleetWide || file.IsText() {
			continue
		}
		use := u.files[file.Path]
		if use == nil {
			use = &layerUse{file: file, seen: map[string]bool{}}
			u.files[file.Path] = use
		}
		for _, s := range selected.Sources {
			if s.Helm == nil || file.Source != "" && file.Source != s.Name {
				continue
			}
			u.source(ctx, t, s.Helm, use)
		}
	}
}

// chart returns what a source's chart reads, and what names the chart; nil if the chart is not at hand.
func (u *unreadValues) chart(ctx context.Context, s *fleet.HelmSource) (string, *chartvalues.Chart) {
	key := strings.Join([]string{s.Repository, s.Path, s.Repo, s.Chart, s.Version}, "\x00")
	chart, ok := u.known[key]
	if !ok {
		if files := u.charts(ctx, s); files != nil {
			chart = chartvalues.New(files)
		}
		u.known[key] = chart
	}
	return key, chart
}

// source drops what the chart of a source reads from what is unread in a file.
func (u *unreadValues) source(ctx context.Context, t fleet.Target, s *fleet.HelmSource, use *layerUse) {
	key, chart := u.chart(ctx, s)
	if use.seen[key] || use.unread != nil && len(use.unread) == 0 {
		return
	}
	use.seen[key] = true
	content, err := u.fleet.LayerContent(t, use.file)
	if err != nil || chart == nil {
		use.unread = map[string]chartvalues.Unread{}
		return
	}
	for _, key := range slices.Backward(use.file.Keys()) {
		content = map[string]any{key: content}
	}
	values, _ := content.(map[string]any) // an empty file sets nothing
	found := map[string]chartvalues.Unread{}
	for _, one := range chart.Unread(values) {
		name := strings.Join(one.Path, "\x00")
		_, before := use.unread[name]
		if (use.unread == nil || before) && !readsItself(t.App, one.Path) {
			found[name] = one
		}
	}
	use.unread, use.chart = found, chart.Name
}

// readsItself reports whether Sluice reads the value, as the version of a chart.
func readsItself(a *fleet.App, at []string) bool {
	return slices.ContainsFunc(a.AllSources(), func(s fleet.Source) bool {
		return s.Helm != nil && s.Helm.VersionFrom != nil && s.Helm.VersionFrom.Value != "" &&
			strings.HasPrefix(s.Helm.VersionFrom.Value+".", strings.Join(at, ".")+".")
	})
}

func (u *unreadValues) problems() fleet.Problems {
	var out fleet.Problems
	for _, use := range u.files {
		if len(use.unread) == 0 {
			continue
		}
		data, err := u.fleet.LayerText(use.file)
		if err != nil {
			continue // reported elsewhere
		}
		documents := yamlnode.Documents(data)
		if len(documents) == 0 {
			continue
		}
		for _, one := range use.unread {
			p := unreadProblem(use.file.Path, use.chart, one)
			at := one.Path[min(len(use.file.Keys()), len(one.Path)):]
			key := keyNode(documents[0], at)
			if key != nil {
				p.Line, p.Column = key.Line, key.Column
			}
			if !sharesText(documents[0], at) {
				out = append(out, p)
			}
		}
	}
	return out
}

func unreadProblem(file, chart string, one chartvalues.Unread) fleet.Problem {
	p := fleet.Problem{
		File: file, Line: 1, Column: 1, Severity: fleet.SeverityWarning,
		Message: fmt.Sprintf("no template of the chart %s reads the value %s", chart, strings.Join(one.Path, ".")),
		Hint:    "correct it, or remove it",
	}
	if one.Similar != "" {
		p.Message += ", did you mean " + strings.Join(append(slices.Clone(one.Path[:len(one.Path)-1]), one.Similar), ".") +
			"?"
	}
	return p
}

// givenValues are the values of imported targets that no chart reads.
type givenValues struct {
	charts map[string]map[string]bool // by file that sets values, and by object: the charts that get them
	found  map[string]fleet.Problem   // by its text
}

// imported finds what the charts of an imported target do not read.
func (u *unreadValues) imported(ctx context.Context, t fleet.Target) {
	i := t.Imported()
	if i.Err != nil {
		return
	}
	for n := range i.Sources {
		s := &i.Sources[n]
		if s.Helm == nil || len(s.Values) == 0 {
			continue
		}
		key, chart := u.chart(ctx, s.Helm)
		for _, file := range append([]string{objectOf(i)}, s.ValuesFiles...) {
			if u.given.charts[file] == nil {
				u.given.charts[file] = map[string]bool{}
			}
			u.given.charts[file][key] = true
		}
		for _, one := range chart.Unread(s.Values) {
			file, line, column, err := u.position(u.fleet, t, strconv.Itoa(n), one.Path)
			if err != nil || line == 0 {
				continue // the position is unknown, and the value cannot be named
			}
			p := unreadProblem(file, chart.Name, one)
			p.Line, p.Column = line, column
			u.given.found[objectOf(i)+"\x00"+p.String()] = p
		}
	}
}

// objectOf names the user's object of an imported target.
func objectOf(i *fleet.Imported) string { return fmt.Sprintf("%s:%d", i.File, i.Line) }

// problems returns what was found in files and objects that only one chart gets: another chart may read what this one
// does not.
func (g givenValues) problems() fleet.Problems {
	var out fleet.Problems
	for key, p := range g.found {
		object, _, _ := strings.Cut(key, "\x00")
		if len(g.charts[object]) < 2 && len(g.charts[p.File]) < 2 && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// keyNode returns the node of a key; nil if the file does not have it, as below a merged anchor.
func keyNode(root *yaml.Node, at []string) *yaml.Node {
	if len(at) == 0 {
		return nil
	}
	parent := yamlnode.Child(root, at[:len(at)-1]...)
	if parent == nil {
		return nil
	}
	for i := 0; i+1 < len(parent.Content) && parent.Kind == yaml.MappingNode; i += 2 {
		if parent.Content[i].Value == at[len(at)-1] {
			return parent.Content[i]
		}
	}
	return nil
}

// sharesText reports whether a value holds text for other values of the file: it has an anchor, or a name that is used
// for that.
func sharesText(root *yaml.Node, at []string) bool {
	if len(at) == 0 {
		return false
	}
	if name := at[0]; strings.HasPrefix(name, "x-") || strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") {
		return true
	}
	return hasAnchor(yamlnode.Child(root, at...))
}

func hasAnchor(n *yaml.Node) bool {
	return n != nil && (n.Anchor != "" || slices.ContainsFunc(n.Content, hasAnchor))
}

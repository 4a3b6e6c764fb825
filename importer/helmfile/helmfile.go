package helmfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
)

// State is what `helmfile build` printed for an environment. An environment can have two: without --embed-values, which
// names values files, and with it, which has the values of templates.
type State struct {
	Environment string
	File        string // for messages
	Data        []byte
}

// Files are the files of the repository.
type Files interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
}

// Options are the input of Convert.
type Options struct {
	Name   string // of the fleet
	States []State
	Files  Files
	Root   string // the repository's folder, to which the sources of states are relative

	Worktree     fs.FS // the files of that folder, with those that Git ignores; nil if there is none
	InlineValues bool  // write values of templates and of the helmfile although they can hold secrets
}

// Effects of a finding.
const (
	LeftOut    = "left out"         // the fleet does not have the release
	NotCarried = "not carried over" // the fleet has the release without the field
	Changed    = "changed"          // the fleet says it in another way
)

// Finding names something that the fleet does not have, or says in another way.
type Finding struct {
	Environments []string `json:"environments"`
	Release      string   `json:"release,omitempty"` // "" concerns all releases
	Effect       string   `json:"effect"`
	Field        string   `json:"field"`
	Reason       string   `json:"reason"`
	File         string   `json:"file"` // a state, and the line of the release in it
	Line         int      `json:"line"`
	Places       []Place  `json:"places,omitempty"` // of the release, one for each environment
}

// Place tells releases of one name apart.
type Place struct {
	Environment string `json:"environment"`
	Namespace   string `json:"namespace,omitempty"`
	Context     string `json:"kubeContext,omitempty"`
}

// Result is a fleet as files.
type Result struct {
	Files    map[string][]byte // by path in the repository
	Apps     []string
	Kept     []string // values files that stay where they are
	Clusters []string
	Findings []Finding
}

// Convert converts states to files of a fleet. An error means that a state cannot be read; a release that cannot be
// carried over is a Finding.
func Convert(o Options) (*Result, error) {
	c := &converter{Options: o, clusters: map[string]*cluster{}, result: Result{Files: map[string][]byte{}}}
	if err := c.read(); err != nil {
		return nil, err
	}
	c.unite()
	if len(c.apps) == 0 {
		return &c.result, errors.New("no release can be converted")
	}
	if err := c.free(); err != nil {
		return nil, err
	}
	if err := (writer{c}).write(); err != nil {
		return nil, err
	}
	return &c.result, nil
}

// free refuses a repository whose files the fleet would read as layers of the new apps. Other files below apps/<app>
// stay unread.
func (c *converter) free() error {
	taken := []string{"layers", noFile}
	for _, a := range c.apps {
		for _, name := range []string{"app.yaml", "layers", c.by} {
			taken = append(taken, path.Join("apps", a.name, name))
		}
	}
	for _, name := range taken {
		if _, err := c.Files.Stat(name); err == nil {
			return fmt.Errorf("%s exists, and the fleet would read it (rename it first, and in the helmfile, and build the states again)", name)
		}
	}
	return nil
}

type converter struct {
	Options

	environments []string            // in the order of the states
	clusters     map[string]*cluster // by name
	cells        []*cell             // that can be converted; after unite, those of apps
	apps         []*app
	by           string // the label by which layers differ: environment or cluster
	slots        int    // values files that a release names, and what is between them, at most
	secrets      secrets
	result       Result
}

// cluster is a kubeContext in an environment.
type cluster struct {
	name, environment, context string
	kubeVersion                string
	apiVersions                []string
	versioned                  bool // a release that the fleet has sets kubeVersion or apiVersions
}

// cell is a release on a cluster.
type cell struct {
	release     *release
	cluster     *cluster
	file        string // the state
	namespace   string
	stated      string // the namespace in the state; "" if it has none
	source      fleet.HelmSource
	kubeVersion string
	apiVersions []string
	entries     []entry
	overlay     map[string]any // values above all entries
	patches     []any
}

// entry is an item of a release's values: a file of the repository that is kept, or values.
type entry struct {
	path   string
	values map[string]any
	secret bool   // the file has references to secrets
	inline string // the item, if the values are in no plain file of the repository
}

// read reads all states into cells.
func (c *converter) read() error {
	byName := map[string][]State{}
	for _, s := range c.States {
		if !fleet.ValidName(s.Environment) {
			return fmt.Errorf("%s: %q cannot be the name of an environment (write ENVIRONMENT=FILE with lower-case letters, digits, - and .)", s.File, s.Environment)
		}
		if len(byName[s.Environment]) == 2 {
			return fmt.Errorf("%s: the environment %s has three states (give one with and one without --embed-values)",
				s.File, s.Environment)
		}
		if byName[s.Environment] = append(byName[s.Environment], s); len(byName[s.Environment]) == 1 {
			c.environments = append(c.environments, s.Environment)
		}
	}
	var all []loaded
	for _, name := range c.environments {
		one, err := load(name, byName[name])
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	if err := c.scan(all); err != nil {
		return err
	}
	for _, l := range all {
		if l.inline == nil && embeds(l.docs) && c.secrets.file != "" {
			return fmt.Errorf("%s: the state has values of files, and %s (give the state without --embed-values too)",
				l.file, c.secrets.file)
		}
		if err := c.environment(l); err != nil {
			return err
		}
	}
	return nil
}

// loaded is the one or two states of an environment.
type loaded struct {
	name, file string
	docs       []document
	inline     map[string][]any // the values of releases in the second state; nil if there is none
}

func load(name string, list []State) (loaded, error) {
	docs, err := parse(list[0], name)
	if err != nil {
		return loaded{}, err
	}
	file := list[0].File
	if len(list) == 1 {
		return loaded{name: name, file: file, docs: docs}, nil
	}
	second, err := parse(list[1], name)
	if err != nil {
		return loaded{}, err
	}
	if !namesFiles(docs) && namesFiles(second) {
		docs, second, file = second, docs, list[1].File
	}
	if namesFiles(second) {
		return loaded{}, fmt.Errorf("%s: both states of %s name values files (build one of them with --embed-values)",
			list[1].File, name)
	}
	return loaded{name: name, file: file, docs: docs, inline: embeddedValues(second)}, nil
}

// namesFiles reports whether values of a release are the name of a file.
func namesFiles(docs []document) bool {
	for _, d := range docs {
		for _, r := range d.state.Releases {
			if slices.ContainsFunc(r.Values, func(v any) bool { _, isName := v.(string); return isName }) {
				return true
			}
		}
	}
	return false
}

// embeds reports whether a state can have the content of values files.
func embeds(docs []document) bool {
	for _, d := range docs {
		for _, r := range d.state.Releases {
			if len(r.Values) > 0 {
				return !namesFiles(docs)
			}
		}
	}
	return false
}

// embeddedValues maps releases to their values.
func embeddedValues(docs []document) map[string][]any {
	out := map[string][]any{}
	for _, d := range docs {
		for i := range d.state.Releases {
			r := &d.state.Releases[i]
			out[identity(&d.state, r)] = r.Values
		}
	}
	return out
}

// identity is what helmfile knows a release by. What the state says for all releases wins.
func identity(s *spec, r *release) string {
	return contextOf(s, r) + "/" + cmp.Or(s.Namespace, r.Namespace) + "/" + r.Name
}

// contextOf is the kubeContext of a release. That of the environment counts if helmfile and the fleet have one name for
// it.
func contextOf(s *spec, r *release) string {
	return cmp.Or(s.KubeContext, r.KubeContext, s.Environments[r.environment].KubeContext, s.HelmDefaults.KubeContext)
}

// environment reads the releases of an environment.
func (c *converter) environment(l loaded) error {
	name, file := l.name, l.file
	for d := range l.docs {
		doc := &l.docs[d]
		refusal := c.stateFields(name, file, doc)
		for i := range doc.state.Releases {
			r := &doc.state.Releases[i]
			at := place{
				environment: name, file: file, line: r.line, release: r.Name,
				namespace: cmp.Or(doc.state.Namespace, r.Namespace), context: contextOf(&doc.state, r),
			}
			if r.Installed != nil && !*r.Installed {
				c.find(at, Changed, "installed", "installed: false: the release is not placed in the environment")
				continue
			}
			switch on, why := enabled(r, doc); {
			case why != nil:
				c.find(at, LeftOut, why.field, why.reason)
				continue
			case !on:
				c.find(at, Changed, "condition",
					fmt.Sprintf("%v is false in the values of the environment: the release is not placed in it",
						r.Condition))
				continue
			}
			if refusal != nil {
				c.find(at, LeftOut, refusal[0], refusal[1])
				continue
			}
			if !c.releaseFields(at, r) {
				continue
			}
			one, why := c.cell(at, doc, r, l.inline)
			if why != nil {
				c.find(at, LeftOut, why.field, why.reason)
				continue
			}
			if !c.listInline(at, one) {
				continue
			}
			if known := c.known(one); known {
				return fmt.Errorf("%s:%d: the release %s is in the environment %s twice", file, r.line, r.Name, name)
			}
			c.cells = append(c.cells, one)
		}
	}
	return nil
}

func (c *converter) known(one *cell) bool {
	return slices.ContainsFunc(c.cells, func(other *cell) bool {
		return other.cluster == one.cluster && other.namespace == one.namespace &&
			other.release.Name == one.release.Name
	})
}

// stateFields lists what a state says for all releases. It returns the field and the reason if no release can be
// converted.
func (c *converter) stateFields(environment, file string, doc *document) []string {
	at := place{environment: environment, file: file, line: doc.line}
	defaults, _ := doc.fields["helmDefaults"].(map[string]any) // decoded as an object already
	fields := maps.Clone(doc.fields)
	for name, v := range fields { // a helmfile with releases of its own is a document of its own
		if _, known := stateFields()[name]; !known && !set(v) {
			delete(fields, name)
		}
	}
	if why := c.fields(at, fields, stateFields(), ""); why != nil {
		return why
	}
	list, _ := doc.fields["repositories"].([]any) // decoded as a list already
	for _, item := range list {
		c.repositoryFields(at, item)
	}
	return c.fields(at, defaults, defaultFields(), "helmDefaults.")
}

// repositoryFields lists what a chart repository says beyond its address.
func (c *converter) repositoryFields(at place, item any) {
	fields, _ := item.(map[string]any) // decoded as an object already
	var names []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if set(fields[name]) && !slices.Contains([]string{"name", "url", "oci"}, name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		c.find(at, NotCarried, fmt.Sprintf("repositories (%v): %s", fields["name"], strings.Join(names, ", ")),
			reasons()[fetched])
	}
}

// releaseFields lists the fields of a release that are not carried over. It reports whether the release can be
// converted.
func (c *converter) releaseFields(at place, r *release) bool {
	if labels, ok := r.fields["labels"].(map[string]any); ok { // helmfile adds these
		for _, own := range []string{"chart", "name", "namespace"} {
			delete(labels, own)
		}
	}
	if why := c.fields(at, r.fields, releaseFields(), ""); why != nil {
		c.find(at, LeftOut, why[0], why[1])
		return false
	}
	return true
}

// fields lists fields by their class. It returns the first one that is refused, with the reason.
func (c *converter) fields(at place, fields map[string]any, known map[string]field, prefix string) []string {
	grouped := map[class][]string{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f, ok := known[name]
		switch {
		case !set(fields[name]):
		case !ok:
			return []string{prefix + name, "Sluice does not know the field"}
		case f.class == refused:
			return []string{prefix + name, f.reason}
		case f.class == listed:
			c.find(at, NotCarried, prefix+name+details(name, fields[name]), f.reason)
		case f.class == applied || f.class == fetched:
			grouped[f.class] = append(grouped[f.class], prefix+name)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(grouped)) {
		c.find(at, NotCarried, strings.Join(grouped[k], ", "), reasons()[k])
	}
	return nil
}

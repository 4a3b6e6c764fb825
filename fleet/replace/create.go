package replace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/yamledit"
)

// creation declares a new cluster.
type creation struct {
	fleet    *fleet.Fleet
	files    Files
	old, new string
	options  Options
	change   *Change
	looked   int // files below policy/
}

func (c *creation) write() (*Change, error) {
	c.change.Message = message(Create, c.old, c.new)
	o, err := c.check()
	if err != nil {
		return nil, err
	}
	text, err := c.declaration(o)
	if err != nil {
		return nil, err
	}
	if err := c.place(o, text); err != nil {
		return nil, err
	}
	if err := c.pins(); err != nil {
		return nil, err
	}
	with, err := c.files.Load(c.change.Files)
	if err != nil {
		return nil, err
	}
	if err := (&copies{creation: c, with: with, o: o}).all(); err != nil {
		return nil, err
	}
	if c.change.Fleet, err = c.files.Load(c.change.Files); err != nil {
		return nil, err
	}
	if err := c.resolves(); err != nil {
		return nil, err
	}
	c.notes(o)
	for name := range c.change.Files {
		if _, err := c.files.Read(name); errors.Is(err, fs.ErrNotExist) {
			c.change.Added = append(c.change.Added, name)
		}
	}
	slices.Sort(c.change.Added)
	return c.change, c.change.proves(c.fleet, Create, c.old, c.new)
}

// check returns the old cluster, or why it cannot be replaced.
func (c *creation) check() (*fleet.Cluster, error) {
	o, ok := c.fleet.Cluster(c.old)
	if !ok {
		return nil, fmt.Errorf("the fleet has no cluster %s", c.old)
	}
	if n, exists := c.fleet.Cluster(c.new); exists {
		return nil, fmt.Errorf("the cluster %s exists in %s (choose another name; if it shall take the place of %s, write `replaces: %[3]s` into its spec)",
			c.new, n.File, c.old)
	}
	if other, exists := c.fleet.Replacement(c.old); exists {
		return nil, fmt.Errorf("the cluster %s replaces %s already, as %s says (retire it, or remove `replaces` there)", other.Name, c.old, other.File)
	}
	switch traffic := c.fleet.Spec.Traffic; {
	case o.Frozen() || o.Retired():
		return nil, fmt.Errorf("the cluster %s is not active (set state: active in %s)", c.old, o.File)
	case traffic == nil && !c.options.NoTraffic:
		return nil, fmt.Errorf("sluice.yaml has no spec.traffic, so %s would get everything at once, and with it the traffic of %s (add `traffic: {label: traffic}`, and let apps or layers select by that label; with --no-traffic, nothing on the clusters brings traffic)",
			c.new, c.old)
	case traffic != nil && c.options.NoTraffic:
		return nil, fmt.Errorf("sluice.yaml has spec.traffic, and --no-traffic contradicts it (leave it out)")
	case traffic != nil && !c.fleet.GetsTraffic(o):
		return nil, fmt.Errorf("%s gets no traffic, because its label %s is %s: there is nothing to move (declare the new cluster, and retire the old one)",
			c.old, traffic.Label, traffic.StandbyValue())
	}
	for _, t := range c.fleet.TargetsOf(o) {
		if d := t.App.Describes(); d != nil {
			return nil, fmt.Errorf("the app %s on %s describes the cluster %s: on %s too, two management clusters would manage it, and a sync tool that prunes deletes it when its objects leave %[2]s (declare a management cluster yourself, and move the objects with `clusterctl move`)",
				t.App.Declared(), c.old, d.Name, c.new)
		}
	}
	return o, nil
}

// declaration returns the document of the new cluster.
func (c *creation) declaration(o *fleet.Cluster) ([]byte, error) {
	data, err := declaration(c.files, o)
	if err != nil {
		return nil, err
	}
	text, err := yamledit.Extract(data, yamledit.Document{Kind: "Cluster", Name: c.old})
	if err != nil {
		return nil, err
	}
	edits := [][]string{{c.new, "spec", "replaces", c.old}}
	if t := c.fleet.Spec.Traffic; t != nil {
		edits = append(edits, []string{c.new, "metadata", "labels", t.Label, t.StandbyValue()})
	}
	if text, err = yamledit.Set(text, yamledit.Document{Kind: "Cluster", Name: c.old}, []string{"metadata", "name"}, c.new); err != nil {
		return nil, fmt.Errorf("%s: %w", o.File, err)
	}
	for _, e := range edits {
		at, value := e[1:len(e)-1], e[len(e)-1]
		if text, err = yamledit.Set(text, yamledit.Document{Kind: "Cluster", Name: c.new}, at, value); err != nil {
			return nil, fmt.Errorf("%s: %w", o.File, err)
		}
	}
	return text, nil
}

// place chooses the file of the new cluster: the one that was asked for, one beside that of the old cluster, or, where
// spec.files.clusters matches none, that of the old cluster.
func (c *creation) place(o *fleet.Cluster, text []byte) error {
	globs := c.fleet.Spec.Files.Clusters
	if len(globs) == 0 {
		globs = []string{"clusters/*.yaml"}
	}
	read := func(name string) bool { return fleet.MatchesAny(globs, name) }
	candidates := []string{renamed(o.File, c.old, c.new), path.Join(path.Dir(o.File), c.new+".yaml")}
	file := o.File
	if c.options.File != "" {
		file = path.Clean(c.options.File)
		if !fs.ValidPath(file) || !read(file) {
			return fmt.Errorf("no pattern of spec.files.clusters matches %s: %s (choose another file)", c.options.File, strings.Join(globs, ", "))
		}
	} else if i := slices.IndexFunc(candidates, func(name string) bool { return name != o.File && read(name) }); i >= 0 {
		file = candidates[i]
	}
	have, err := c.files.Read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case file != o.File && c.options.File == "":
		return fmt.Errorf("%s exists, and does not declare the cluster %s (name another file with --file, or remove it)", file, c.new)
	default:
		text = slices.Concat(bytes.TrimRight(have, "\n"), []byte("\n---\n"), text)
	}
	c.change.Files[file] = text
	return nil
}

// renamed replaces a name where it is a whole folder, or a whole file name without its ending.
func renamed(file, old, new string) string {
	parts := strings.Split(file, "/")
	for i, part := range parts {
		stem, ending, dotted := strings.Cut(strings.TrimPrefix(part, old), ".")
		if strings.HasPrefix(part, old) && stem == "" && (part == old || dotted && i == len(parts)-1) {
			parts[i] = new
			if dotted {
				parts[i] += "." + ending
			}
		}
	}
	return strings.Join(parts, "/")
}

// pins adds the new cluster wherever a selector lists the old one by its name.
func (c *creation) pins() error {
	names := map[string]bool{fleet.File: true}
	for _, a := range c.fleet.Declared() {
		if !a.Imported() {
			names[a.File] = true
		}
	}
	for _, w := range c.fleet.Workspaces {
		names[w.File] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		data, err := c.files.Read(name)
		if errors.Is(err, fs.ErrNotExist) { // in another repository
			c.elsewhere(name)
			continue
		}
		if err != nil {
			return err
		}
		if written, ok := c.change.Files[name]; ok {
			data = written
		}
		edited, err := c.pinned(name, data)
		if err != nil {
			return err
		}
		if !bytes.Equal(edited, data) {
			c.change.Files[name] = edited
			c.note("%s selects %s by its name, and now %s too", name, c.old, c.new)
		} else if mentions(data, c.old) && name != fleet.File {
			c.note("%s names %s: add %s where it must hold for both", name, c.old, c.new)
		}
	}
	return c.policies("policy")
}

// maxPolicies limits the files below policy/ that are looked at.
const maxPolicies = 1000

// policies notes rules and exemptions that name the old cluster.
func (c *creation) policies(dir string) error {
	if !c.fleet.Has(dir) {
		return nil
	}
	entries, err := c.fleet.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if c.fleet.IsDir(dir, e) {
			if err := c.policies(name); err != nil {
				return err
			}
			continue
		}
		if c.looked++; c.looked > maxPolicies {
			return nil
		}
		if data, err := c.files.Read(name); err == nil && mentions(data, c.old) {
			c.note("%s names %s: add %s where it must hold for both", name, c.old, c.new)
		}
	}
	return nil
}

// elsewhere notes a file of another repository that may name the cluster.
func (c *creation) elsewhere(name string) {
	data, err := c.fleet.ReadFile(name)
	if err == nil && mentions(data, c.old) {
		c.note("%s is in another repository and names %s: add %s there", c.fleet.Locate(name), c.old, c.new)
	}
}

func (c *creation) note(format string, args ...any) {
	c.change.Notes = append(c.change.Notes, fmt.Sprintf(format, args...))
}

// pinned adds the new cluster to the selectors of a file.
func (c *creation) pinned(name string, data []byte) ([]byte, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	out := data
	for {
		var doc yaml.Node
		if err := decoder.Decode(&doc); err != nil || len(doc.Content) != 1 {
			return out, nil //nolint:nilerr // the end; the fleet has read the file
		}
		root := doc.Content[0]
		in := yamledit.Document{Kind: textOf(root, "kind"), Name: textOf(root, "metadata", "name")}
		var walk func(n *yaml.Node, at []string) error
		walk = func(n *yaml.Node, at []string) error {
			for i, child := range n.Content {
				if n.Kind == yaml.SequenceNode {
					if err := walk(child, append(slices.Clone(at), strconv.Itoa(i))); err != nil {
						return err
					}
					continue
				}
				if n.Kind != yaml.MappingNode || i%2 == 0 {
					continue
				}
				key := n.Content[i-1].Value
				switch here := append(slices.Clone(at), key); {
				case key == "matchLabels" && textOf(child, "cluster") == c.old:
					return fmt.Errorf("%s:%d: the selector has matchLabels with cluster: %s, which cannot list a second cluster (write `matchExpressions: [{key: cluster, operator: In, values: [%[3]s]}]` instead)",
						name, child.Line, c.old)
				case key == "matchExpressions":
					for j, r := range child.Content {
						if textOf(r, "key") != "cluster" || !lists(r, c.old) || lists(r, c.new) {
							continue
						}
						var err error
						place := append(slices.Clone(here), strconv.Itoa(j), "values")
						if out, err = yamledit.Append(out, in, place, c.new); err != nil {
							return fmt.Errorf("%s: %w", name, err)
						}
					}
				default:
					if err := walk(child, here); err != nil {
						return err
					}
				}
			}
			return nil
		}
		if err := walk(root, nil); err != nil {
			return nil, err
		}
	}
}

// textOf returns the scalar at a path of keys; "" if there is none.
func textOf(n *yaml.Node, at ...string) string {
	for _, key := range at {
		if n.Kind != yaml.MappingNode {
			return ""
		}
		var next *yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				next = n.Content[i+1]
			}
		}
		if next == nil {
			return ""
		}
		n = next
	}
	return n.Value
}

// lists reports whether the values of a requirement have a name.
func lists(r *yaml.Node, name string) bool {
	for i := 0; i+1 < len(r.Content); i += 2 {
		if r.Content[i].Value == "values" {
			return slices.ContainsFunc(r.Content[i+1].Content, func(v *yaml.Node) bool { return v.Value == name })
		}
	}
	return false
}

// resolves returns an error if a target of the new cluster lacks something that is there for the old one.
func (c *creation) resolves() error {
	n, ok := c.change.Fleet.Cluster(c.new)
	if !ok {
		return fmt.Errorf("the fleet does not read the declaration of %s (does spec.files.clusters match its file?)", c.new)
	}
	for _, t := range c.change.Fleet.TargetsOf(n) {
		if _, err := c.change.Fleet.Select(t); err != nil {
			return err
		}
	}
	return nil
}

// notes says what a person should look at before the commit.
func (c *creation) notes(o *fleet.Cluster) {
	f, traffic := c.change.Fleet, c.fleet.Spec.Traffic
	later := lacking(appsOf(f, c.old), appsOf(f, c.new))
	layered := traffic != nil && slices.ContainsFunc(f.Layers(), func(l fleet.Layer) bool { return l.Name == traffic.Label })
	switch {
	case len(later) > 0 && traffic != nil:
		c.note("%s does not get with this step: %s", c.new, strings.Join(later, ", "))
	case len(later) > 0:
		c.note("%s has apps that %s does not get: %s", c.old, c.new, strings.Join(later, ", "))
	case traffic != nil && !layered:
		c.note("no app and no layer selects by the label %s, so %s gets every app of %s at once: let what brings traffic select by it",
			traffic.Label, c.new, c.old)
	}
	if len(o.Vars) > 0 {
		own := slices.Sorted(maps.Keys(o.Vars))
		c.note("%s has the variables of %s (%s): change those that must differ, such as addresses", c.new, c.old, strings.Join(own, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(c.change.Files)) {
		if strings.Contains("/"+name, "/"+c.new+"/") && mentions(c.change.Files[name], c.old) {
			c.note("%s is a copy and names %s: correct what must differ", name, c.old)
		}
	}
	if file := "capabilities/" + c.old + ".txt"; c.fleet.Has(file) {
		c.note("charts see on %s what %s says: write that of %s with `sluice capabilities %[3]s`", c.old, file, c.new)
	}
	for _, a := range f.Apps {
		if d := a.Describes(); d != nil && d.Name == c.new {
			c.note("the app %s describes %s: its objects create the cluster when the management cluster gets them", a.Name, c.new)
		}
	}
}

// mentions reports whether a text has a name as a whole word.
func mentions(data []byte, name string) bool {
	isName := func(b byte) bool {
		return b == '-' || b == '.' || b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	for rest, at := data, 0; ; {
		i := bytes.Index(rest[at:], []byte(name))
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(name)
		if (start == 0 || !isName(rest[start-1])) && (end == len(rest) || !isName(rest[end])) {
			return true
		}
		at = start + 1
	}
}

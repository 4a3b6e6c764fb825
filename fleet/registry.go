package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/internal/nearest"
)

type class struct {
	doc  document
	name string
	spec ClassSpec
}

// Labels that every cluster has without declaring them.
const (
	labelClass       = "class"
	labelEnvironment = "environment"
	labelCluster     = LabelCluster
)

// LabelCluster is the label that every cluster has with its own name.
const LabelCluster = "cluster"

// DefaultTrunk is the trunk of a fleet that names none.
const DefaultTrunk = "main"

// LayerGlobal is the layer that comes before all others, for every target.
const LayerGlobal = "global"

func automatic() []string { return []string{labelClass, labelEnvironment, labelCluster} }

// fleetChecks checks the fields of sluice.yaml about the whole fleet.
type fleetChecks struct {
	*findings
	fleet *Fleet
	file  document // sluice.yaml
}

func (fc fleetChecks) all() {
	spec, doc := &fc.fleet.Spec, fc.file
	fc.checkName(doc, fc.fleet.Name, "metadata", "name")
	if spec.Trunk == "" {
		spec.Trunk = DefaultTrunk
	}
	seen := map[string]bool{}
	for i, layer := range spec.Layers {
		at := []string{"spec", "layers", strconv.Itoa(i)}
		switch {
		case layer.Name == LayerGlobal:
			fc.errorf(doc, at, "leave it out", "the layer global always comes first")
		case layer.Name == "" || !validLabelKey(layer.Name):
			fc.errorf(doc, at, "", "%q is not a label key", layer.Name)
		case seen[layer.Name]:
			fc.errorf(doc, at, "keep one", "the layer %s is there twice", layer.Name)
		}
		seen[layer.Name] = true
		for _, template := range layer.templates() {
			if _, err := parseReferences(template); err != nil {
				fc.errorf(doc, at, "", "layer %s: %q: %v", layer.Name, template, err)
			}
		}
		for j, v := range layer.Values {
			if v.At != "" && slices.Contains(strings.Split(v.At, "."), "") {
				fc.errorf(doc, append(slices.Clone(at), "values", strconv.Itoa(j), "at"),
					"keys with dots between them, such as image.tag", "layer %s: %q is not a key", layer.Name, v.At)
			}
		}
	}
	environmentChecks{fc.findings, fc.file, spec.Environments}.all(spec.Environments)
	fc.output()
	fc.governance()
	if _, err := spec.Safety.MaxDeletions.of(100); err != nil {
		fc.errorf(doc, []string{"spec", "safety", "maxDeletions"}, "such as 20% or 50", "%v", err)
	}
	fc.risk()
	fc.upgrades()
	fc.routine()
	fc.traffic()
	fc.patterns(fc.fleet.Spec.Images.MustExist, "images", "mustExist")
	fc.review()
}

func (l *loader) classesFrom(documents []document) {
	l.classes = map[string]*class{}
	for _, doc := range documents {
		file, ok := doc.value.(*ClassFile)
		if !ok {
			continue
		}
		name := file.Metadata.Name
		if !l.checkName(doc, name, "metadata", "name") {
			l.lost = true
			continue
		}
		if first, ok := l.classes[name]; ok {
			l.errorf(doc, []string{"metadata", "name"}, "rename one", "the class %s is also in %s", name,
				place(first.doc))
			continue
		}
		l.fleet.classes[name] = doc.file
		l.classes[name] = &class{doc: doc, name: name, spec: file.Spec}
		l.checkLabels(doc, file.Spec.Labels, "spec", "labels")
		l.checkKubeVersion(doc, file.Spec.KubeVersion)
		if len(file.Metadata.Labels) > 0 {
			l.errorf(doc, []string{"metadata", "labels"}, "put them into spec.labels",
				"the labels of a class belong into spec.labels")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.classes)) {
		c := l.classes[name]
		if parent := c.spec.Parent; parent != "" && l.classes[parent] == nil {
			if !l.lost {
				l.errorf(c.doc, []string{"spec", "parent"}, knownClasses(l.classes), "the class %q does not exist%s",
					parent, nearest.DidYouMean(parent, slices.Sorted(maps.Keys(l.classes))))
			}
			c.spec.Parent = ""
		}
	}
	parents := map[string][]string{}
	for name, c := range l.classes {
		if c.spec.Parent != "" {
			parents[name] = []string{c.spec.Parent}
		}
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(l.classes)) {
		if cycle := findCycle(name, parents, seen); cycle != nil {
			l.errorf(l.classes[name].doc, []string{"spec", "parent"}, "remove one parent",
				"classes inherit from each other: %s", strings.Join(cycle, " → "))
			for _, in := range cycle { // so that chain terminates
				l.classes[in].spec.Parent = ""
				delete(parents, in)
			}
		}
	}
}

// environmentsKnown is false if an environment could not be decoded. A missing name is then not reported again.
func (l *loader) environmentsKnown() bool {
	n := yamlnode.Child(l.file.root, "spec", "environments")
	return n != nil && !l.file.broken(n)
}

func knownClasses(classes map[string]*class) string {
	return "known: " + strings.Join(slices.Sorted(maps.Keys(classes)), ", ")
}

func place(doc document) string { return fmt.Sprintf("%s:%d", doc.file, doc.line) }

func (l *loader) clustersFrom(documents []document) {
	l.fleet.clusters = withRoom(l.fleet.clusters, len(documents))
	for _, doc := range documents {
		switch file := doc.value.(type) {
		case *ClusterFile:
			l.cluster(doc, file)
		case *ClassFile:
		default:
			l.errorf(doc, []string{"kind"}, "move it, or narrow spec.files.clusters",
				"only Cluster and ClusterClass belong here")
		}
	}
	slices.SortFunc(l.fleet.Clusters, func(a, b *Cluster) int { return cmp.Compare(a.Name, b.Name) })
	l.replacements()
}

func (l *loader) cluster(doc document, file *ClusterFile) {
	name := file.Metadata.Name
	if !l.checkName(doc, name, "metadata", "name") {
		return
	}
	if first, ok := l.fleet.clusters[name]; ok {
		l.errorf(doc, []string{"metadata", "name"}, "rename one", "the cluster %s is also in %s", name,
			place(first.doc))
		return
	}
	c := &Cluster{
		Name: name, Environment: file.Spec.Environment, Class: file.Spec.Class,
		State: cmp.Or(file.Spec.State, stateActive), File: doc.file, doc: doc,
		Labels: make(map[string]string, len(file.Metadata.Labels)+len(automatic())), Replaces: file.Spec.Replaces,
	}
	if c.State == stateDetached {
		c.State, c.Detached = stateRetired, true
	}
	l.fleet.clusters[name] = c
	l.fleet.Clusters = append(l.fleet.Clusters, c)
	if _, ok := l.fleet.Environment(c.Environment); !ok && l.environmentsKnown() {
		names := l.fleet.environmentNames()
		l.errorf(doc, []string{"spec", "environment"}, "known: "+strings.Join(names, ", "),
			"the environment %q does not exist%s", c.Environment, nearest.DidYouMean(c.Environment, names))
	}
	if c.Class != "" && l.classes[c.Class] == nil && !l.lost {
		l.errorf(doc, []string{"spec", "class"}, knownClasses(l.classes), "the class %q does not exist%s", c.Class,
			nearest.DidYouMean(c.Class, slices.Sorted(maps.Keys(l.classes))))
	}
	l.checkLabels(doc, file.Metadata.Labels, "metadata", "labels")
	l.checkKubeVersion(doc, file.Spec.KubeVersion)
	for _, k := range l.chain(c.Class) {
		c.inherit(k.spec.Labels, k.spec.Vars, k.spec.KubeVersion, k.spec.APIVersions, k.spec.Helm)
		if len(k.spec.UpgradeOrder) > 0 {
			c.UpgradeOrder = k.spec.UpgradeOrder
		}
	}
	vars := file.Spec.Vars
	if c.Vars == nil && vars != nil { // shared with the file, which is decoded once: nobody changes a fleet
		c.Vars, vars = vars, nil
	}
	c.inherit(file.Metadata.Labels, vars, file.Spec.KubeVersion, file.Spec.APIVersions, file.Spec.Helm)
	if c.Vars == nil {
		c.Vars = map[string]any{}
	}
	c.Labels[labelClass], c.Labels[labelEnvironment], c.Labels[labelCluster] = c.Class, c.Environment, c.Name
	if c.Class == "" {
		delete(c.Labels, labelClass)
	}
	slices.Sort(c.APIVersions)
	c.APIVersions = slices.Compact(c.APIVersions)
	l.capabilities(c, file.Spec.KubeVersion, doc, "spec", "kubeVersion")
}

// chain returns a class and its ancestors, the root first.
func (l *loader) chain(name string) []*class {
	var out []*class
	for c := l.classes[name]; c != nil; c = l.classes[c.spec.Parent] {
		out = append(out, c)
	}
	slices.Reverse(out)
	return out
}

// withRoom returns a map with room for n more entries, or the map itself if it has entries.
func withRoom(m map[string]*Cluster, n int) map[string]*Cluster {
	if len(m) > 0 {
		return m
	}
	return make(map[string]*Cluster, n)
}

func (c *Cluster) inherit(labels map[string]string, vars map[string]any, kubeVersion string, apiVersions []string,
	helm int,
) {
	maps.Copy(c.Labels, labels)
	if len(vars) > 0 && c.Vars == nil {
		c.Vars = make(map[string]any, len(vars))
	}
	maps.Copy(c.Vars, vars)
	c.KubeVersion = cmp.Or(kubeVersion, c.KubeVersion)
	c.Helm = cmp.Or(helm, c.Helm)
	c.APIVersions = append(c.APIVersions, apiVersions...)
}

func (f *Fleet) environmentNames() []string {
	names := make([]string, len(f.Spec.Environments))
	for i, e := range f.Spec.Environments {
		names[i] = e.Name
	}
	return names
}

func (l *loader) appsFrom(documents []document) {
	for _, doc := range documents {
		file, ok := doc.value.(*AppFile)
		if !ok {
			l.errorf(doc, []string{"kind"}, "move it, or narrow spec.files.apps", "only App belongs here")
			continue
		}
		l.app(doc, file, nil)
	}
	l.expand()
	slices.SortFunc(l.fleet.Apps, func(a, b *App) int { return cmp.Compare(a.Name, b.Name) })
}

// app adds an app of the fleet itself, or of a workspace.
func (l *loader) app(doc document, file *AppFile, w *Workspace) {
	name := file.Metadata.Name
	if !l.checkName(doc, name, "metadata", "name") {
		return
	}
	if w != nil {
		name = w.Name + "/" + name
		if !file.Spec.Delivery.empty() {
			l.errorf(doc, []string{"spec", "delivery"}, "leave it out: sluice.yaml has it for the whole fleet",
				"an app of a workspace cannot choose how it is delivered")
		}
	}
	if first := cmp.Or(l.fleet.apps[name], l.fleet.repeated[name]); first != nil {
		l.errorf(doc, []string{"metadata", "name"}, "rename one", "the app %s is also in %s", name, place(first.doc))
		return
	}
	if ns := file.Spec.Namespace; !strings.Contains(ns, "${") && !validNamespace(ns) {
		l.errorf(doc, []string{"spec", "namespace"}, "lower-case letters, digits and -, at most 63",
			"%q cannot be a namespace", ns)
	}
	a := &App{
		Name: name, workspace: w, Spec: file.Spec, File: doc.file, Dir: dirOf(doc.file), doc: doc,
		names: l.fleet.names,
	}
	l.fromCatalog(a)
	if file.Spec.ForEach != nil {
		l.repeat(a)
	} else {
		l.fleet.apps[name] = a
		l.fleet.Apps = append(l.fleet.Apps, a)
	}
	l.appVariants(a)
	checkDelivery(l.findings, doc, file.Spec.Delivery)
	l.appReferences(a)
}

// sources checks one list of sources; at is the place of the mapping that has them.
func (l *loader) sources(a *App, one *Source, many []Source, at ...string) []Source {
	place := func(parts ...string) []string { return append(slices.Clone(at), parts...) }
	checks := sourceChecks{findings: l.findings, fleet: l.fleet, workspace: a.workspace}
	switch {
	case one != nil && len(many) > 0:
		l.errorf(a.doc, place("sources"), "keep one of them", "%s has both source and sources", strings.Join(at, "."))
		return nil
	case one != nil:
		many = []Source{*one}
		checks.check(a.doc, &many[0], place("source"))
	default:
		for i := range many {
			checks.check(a.doc, &many[i], place("sources", strconv.Itoa(i)))
		}
	}
	names := map[string]bool{}
	for _, s := range many {
		if s.Helm != nil {
			checks.release(a.doc, cmp.Or(s.Helm.ReleaseName, a.localName()))
			checkSigners(l, a, s.Helm, at)
		}
		if s.Name != "" && names[s.Name] {
			l.errorf(a.doc, place("sources"), "rename one", "the source %s is there twice", s.Name)
		}
		names[s.Name] = true
	}
	return many
}

// DeclaresCluster reports whether a document of a file declares the cluster, and neither as retired nor as detached. The fleet need not
// read the file. Documents after a syntax error do not count.
func DeclaresCluster(data []byte, name string) bool {
	return slices.ContainsFunc(yamlnode.Documents(data), func(n *yaml.Node) bool {
		return yamlnode.Text(n, "kind") == "Cluster" && yamlnode.Text(n, "metadata", "name") == name &&
			!slices.Contains([]string{stateRetired, stateDetached}, yamlnode.Text(n, "spec", "state"))
	})
}

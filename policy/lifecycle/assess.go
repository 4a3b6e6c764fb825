package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// The rules of an assessment.
const (
	RuleRemoved    = "api-removed"
	RuleDeprecated = "api-deprecated"
	RuleDefinition = "crd-version"
	RuleAdmission  = "admission-rules"
	RuleSkew       = "version-skew"
)

// Table is what Sluice and a fleet know of versions.
type Table struct {
	APIs   map[string]API // of the fleet, by apiVersion/Kind: they come before Kubernetes' own
	Addons []Addon        // the first entry that applies to an image counts
}

// App is an app with the facts of its objects.
type App struct {
	Name  string
	Facts []*Facts
}

// Issue is something that a version of Kubernetes means for an object.
type Issue struct {
	Rule    string
	Blocks  bool // the version must wait for it
	App     string
	Object  manifest.Identity
	Path    string // the field
	Message string
	Hint    string // the next step
}

// Key is equal for issues that are the same problem at several versions.
func (i *Issue) Key() [3]string {
	return [3]string{i.Rule, i.App, i.Object.String() + "\x00" + i.Path}
}

// Assess returns what a version means for everything on a cluster, in the order of the apps and of their objects.
func (t *Table) Assess(at Minor, apps []App) []Issue {
	a := &assessment{table: t, at: at, kinds: map[manifest.GroupKind]*definition{}}
	for _, app := range apps {
		for _, f := range app.Facts {
			if f.crd != nil {
				a.kinds[f.crd.kind] = f.crd
			}
		}
	}
	for _, app := range apps {
		a.app = app.Name
		for _, f := range app.Facts {
			a.object(f)
		}
	}
	return a.out
}

type assessment struct {
	table   *Table
	at      Minor
	kinds   map[manifest.GroupKind]*definition
	removed []removedResource
	app     string
	out     []Issue
}

type removedResource struct {
	named
	resource string
}

func (a *assessment) add(i Issue) {
	i.App = a.app
	a.out = append(a.out, i)
}

func (a *assessment) object(f *Facts) {
	a.api(f)
	a.custom(f)
	for i := range f.admission {
		a.admission(f, &f.admission[i], i)
	}
	for _, name := range f.images {
		a.image(f, name)
	}
}

// of returns the end of life of a version of a kind: the fleet's, or Kubernetes' own.
func (t *Table) of(apiVersion, kind string) (API, bool) {
	if a, ok := t.APIs[apiVersion+"/"+kind]; ok {
		return a, true
	}
	return Of(apiVersion, kind)
}

func (a *assessment) api(f *Facts) {
	l, ok := a.table.of(f.apiVersion, f.object.Kind)
	if !ok {
		return
	}
	hint, name := "", f.apiVersion+" "+f.object.Kind
	if l.Replacement != "" {
		hint = "use " + l.Replacement
	}
	switch {
	case !l.Removed.IsZero() && !a.at.Before(l.Removed):
		a.add(Issue{
			Rule: RuleRemoved, Blocks: true, Object: f.object, Path: "apiVersion",
			Message: fmt.Sprintf("Kubernetes no longer serves %s since %s", name, l.Removed), Hint: hint,
		})
	case !l.Deprecated.IsZero() && !a.at.Before(l.Deprecated):
		until := ""
		if !l.Removed.IsZero() {
			until = ", and removed in " + l.Removed.String()
		}
		a.add(Issue{
			Rule: RuleDeprecated, Object: f.object, Path: "apiVersion",
			Message: fmt.Sprintf("%s is deprecated since Kubernetes %s%s", name, l.Deprecated, until), Hint: hint,
		})
	}
}

// custom looks for the version of a custom object in the definition of its kind.
func (a *assessment) custom(f *Facts) {
	if !f.custom {
		return
	}
	group := manifest.GroupOf(f.apiVersion)
	d := a.kinds[manifest.GroupKind{Group: group, Kind: f.object.Kind}]
	if d == nil {
		return
	}
	version := strings.TrimPrefix(f.apiVersion, group+"/")
	v, known := d.versions[version]
	issue := Issue{Rule: RuleDefinition, Object: f.object, Path: "apiVersion"}
	var others []string
	for name, other := range d.versions {
		if other.served && !other.deprecated {
			others = append(others, group+"/"+name)
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		issue.Hint = "use " + strings.Join(others, " or ")
	}
	switch {
	case !known || !v.served:
		issue.Blocks = true
		issue.Message = fmt.Sprintf("the CustomResourceDefinition of %s does not serve %s", d.kind, version)
	case v.deprecated:
		issue.Message = fmt.Sprintf("the CustomResourceDefinition of %s marks %s as deprecated", d.kind, version)
		if v.warning != "" {
			issue.Message += ": " + v.warning
		}
	default:
		return
	}
	a.add(issue)
}

// admission reports resources of removed versions that the rules name, if they do not also name what replaces them:
// requests for the new version would pass unseen.
func (a *assessment) admission(f *Facts, w *admission, index int) {
	if a.removed == nil { // few clusters have rules of admission
		for n := range removedBy(a.at) {
			plural, _ := meta.UnsafeGuessKindToResource(n.GroupVersionKind)
			a.removed = append(a.removed, removedResource{n, plural.Resource})
		}
	}
	for i := range w.rules {
		r := &w.rules[i]
		var missed []string
		for _, n := range a.removed {
			explicit := slices.Contains(r.versions, n.Version) && slices.Contains(r.groups, n.Group)
			if !explicit || !r.covers(n.Group, n.Version, n.resource) || n.Replacement == "" {
				continue
			}
			apiVersion, kind, _ := strings.Cut(n.Replacement, " ")
			group := manifest.GroupOf(apiVersion)
			version := strings.TrimPrefix(apiVersion, group+"/")
			if kind != n.Kind || slices.ContainsFunc(w.rules, func(r resourceRule) bool {
				return r.covers(group, version, n.resource)
			}) {
				continue
			}
			missed = append(missed, fmt.Sprintf("%s of %s/%s, which became %s", n.resource, n.Group, n.Version, apiVersion))
		}
		if len(missed) == 0 {
			continue
		}
		slices.Sort(missed)
		a.add(Issue{
			Rule: RuleAdmission, Blocks: true, Object: f.object, Path: fmt.Sprintf("%d.rules[%d]", index, i),
			Message: fmt.Sprintf("%s no longer sees %s", w.name, strings.Join(missed, "; ")),
			Hint:    "add the new API to its rules",
		})
	}
}

func (a *assessment) image(f *Facts, name string) {
	i := splitImage(name)
	known := false
	for n := range a.table.Addons {
		addon := &a.table.Addons[n]
		if !addon.matches(i.repository) {
			continue
		}
		v := i.version()
		if v == nil {
			known = true
			break
		}
		applies, wrong := addon.suits(v, a.at)
		if !applies {
			continue
		}
		if wrong != "" {
			a.add(Issue{
				Rule: RuleSkew, Blocks: !addon.Advice, Object: f.object, Path: i.repository,
				Message: fmt.Sprintf("%s %s %s", addon.Name, v, wrong),
				Hint:    hintOf(addon),
			})
		}
		return
	}
	if known {
		a.add(Issue{
			Rule: RuleSkew, Object: f.object, Path: i.repository,
			Message: fmt.Sprintf("the version of the image %s is not known, so nothing says whether it works with the new version", name),
		})
	}
}

func hintOf(a *Addon) string {
	if a.Source == "" {
		return "use another version of the image"
	}
	return "use another version of the image (" + a.Source + ")"
}

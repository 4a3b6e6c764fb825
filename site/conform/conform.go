// Package conform compares sibling clusters: clusters that should be alike, such as those of one class in one
// environment. For each app it takes the rendering that most siblings have as the norm and says how the others differ,
// in which objects and fields, and which layer files or registry variables are the cause. If as many siblings have
// another rendering, there is no norm.
//
// A difference that only carries the value of a registry variable, such as ${cluster.vars.domain}, does not count:
// variables exist to differ. Neither does a rollout in progress: a cluster that it has not reached is compared as its
// environment branch has it. The package reads Git objects, masks Secrets, and renders and writes nothing.
//
// The package is not API: it can change in every release.
package conform

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// Member is one app on one cluster with its rendered tree. Commit is the source commit that the tree was rendered from.
type Member struct {
	Target fleet.Target
	Tree   gitstore.Hash // zero: the app is placed there, and the branch does not hold it
	Commit string
	// Waits: the tree is that of the environment branch, because a rollout, a freeze or a halt explains why the cluster
	// branch does not hold it.
	Waits bool
	// Foreign: nothing explains what the branch holds, so that no layer explains how it differs.
	Foreign bool
}

// Options say which clusters are siblings and what to look at.
type Options struct {
	By     []string // label keys: clusters with equal values are siblings. None: class and environment
	Class  string   // only clusters of this class; "" is all
	Masker *diff.Masker
	// Unfilled are clusters that no branch holds yet. They are not compared.
	Unfilled []string
	// Most bounds the renderings that are compared for one app among siblings; 0 is no bound. Those beyond it are
	// counted in App.Unread.
	Most int
}

// Group is a set of siblings.
type Group struct {
	Labels   []Label  `json:"labels"`
	Clusters []string `json:"clusters"`
	// clusters that differ from the norm of an app in more than variables, or from each other if it has no norm
	Deviate []string `json:"deviate"`
	// clusters that are compared as their environment branch has them, because a rollout, a freeze or a halt explains
	// why their own branch does not
	Waiting []string `json:"waiting,omitempty"`
	Apps    []App    `json:"apps"`  // that differ somewhere
	Alike   int      `json:"alike"` // apps that are alike on all siblings
	Unread  int      `json:"unread,omitempty"`
}

// Label is what siblings have in common.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Name writes the labels: class=edge, environment=prod.
func (g *Group) Name() string {
	parts := make([]string, len(g.Labels))
	for i, l := range g.Labels {
		parts[i] = l.Key + "=" + cmp.Or(l.Value, "(none)")
	}
	return strings.Join(parts, ", ")
}

// App is how the siblings of a group differ in an app.
type App struct {
	App  string   `json:"app"`
	Norm []string `json:"norm"` // clusters that have the most common rendering; none if as many have another one
	// without a norm: the clusters with whose rendering the variants are compared
	Against   []string    `json:"against,omitempty"`
	Missing   []string    `json:"missing,omitempty"` // siblings without the app
	Variants  []Variant   `json:"variants,omitempty"`
	Variables []Reference `json:"variables,omitempty"` // that account for further differences
	Unread    int         `json:"unread,omitempty"`    // clusters that were not compared
}

// Variant is another rendering, and the clusters that have it.
type Variant struct {
	Clusters []string `json:"clusters"`
	Objects  []Object `json:"objects"`
	Causes   []Cause  `json:"causes"`
	// Layers, such as region=us-east-1, explain all of the difference: the two sides take other files of these layers, and
	// nothing else that they are rendered from differs, apart from registry variables.
	Layers []string `json:"layers,omitempty"`
}

// Object is an object that differs from the norm, or from App.Against. Only is "norm" or "variant" if only one side has
// it.
type Object struct {
	Object string  `json:"object"` // Deployment shop/web
	Only   string  `json:"only,omitempty"`
	Fields []Field `json:"fields,omitempty"`
}

// Field is a field that differs, with its values as JSON; "" if a side does not have it.
type Field struct {
	Path    string `json:"path"`
	Norm    string `json:"norm"`
	Variant string `json:"variant"`
}

// Cause is a reason for a variant: a layer's file that only one side takes, or another source commit.
type Cause struct {
	Layer string `json:"layer,omitempty"` // such as region=us-east-1
	File  string `json:"file,omitempty"`
	Only  string `json:"only,omitempty"` // norm or variant
	Text  string `json:"text,omitempty"` // of a cause that is no layer
}

// String is the cause in words.
func (c Cause) String() string {
	if c.Text != "" {
		return c.Text
	}
	if c.Only == "norm" {
		return "not " + c.Layer + " (" + c.File + ")"
	}
	return c.Layer + " (" + c.File + ")"
}

// Reference is a registry variable that differs, and the number of clusters whose rendering carries its value.
type Reference struct {
	Name     string `json:"name"` // cluster.vars.domain
	Clusters int    `json:"clusters"`
}

// Compare compares siblings. Groups come in the order of their labels. Members with a zero tree count as missing.
func Compare(ctx context.Context, store *gitstore.Store, f *fleet.Fleet, members []Member, o Options) ([]Group, error) {
	if len(o.By) == 0 {
		o.By = []string{"class", "environment"}
	}
	groups := map[string]*siblings{}
	var order []string
	for _, c := range f.Clusters {
		if c.Retired() || o.Class != "" && c.Class != o.Class {
			continue
		}
		key := groupKey(c, o.By)
		if groups[key] == nil {
			groups[key] = &siblings{apps: map[string][]Member{}}
			for _, by := range o.By {
				groups[key].out.Labels = append(groups[key].out.Labels, Label{by, c.Labels[by]})
			}
			order = append(order, key)
		}
		groups[key].out.Clusters = append(groups[key].out.Clusters, c.Name)
		if !slices.Contains(o.Unfilled, c.Name) {
			groups[key].filled = append(groups[key].filled, c.Name)
		}
	}
	for _, m := range members {
		if g := groups[groupKey(m.Target.Cluster, o.By)]; g != nil &&
			(o.Class == "" || m.Target.Cluster.Class == o.Class) {
			g.apps[m.Target.App.Name] = append(g.apps[m.Target.App.Name], m)
			if name := m.Target.Cluster.Name; m.Waits && !slices.Contains(g.out.Waiting, name) {
				g.out.Waiting = append(g.out.Waiting, name)
			}
		}
	}
	slices.Sort(order)
	var out []Group
	for _, key := range order {
		c := &comparison{store: store, fleet: f, options: o}
		if err := groups[key].compare(ctx, c); err != nil {
			return nil, err
		}
		out = append(out, groups[key].out)
	}
	return out, nil
}

func groupKey(c *fleet.Cluster, by []string) string {
	parts := make([]string, len(by))
	for i, key := range by {
		parts[i] = c.Labels[key]
	}
	return strings.Join(parts, "\x00")
}

// siblings is a group with the members of its apps.
type siblings struct {
	out    Group
	filled []string // clusters that are compared
	apps   map[string][]Member
}

func (s *siblings) compare(ctx context.Context, c *comparison) error {
	deviate := map[string]bool{}
	s.out.Apps = []App{}
	for _, name := range slices.Sorted(maps.Keys(s.apps)) {
		one, err := c.app(ctx, name, s.apps[name], s.filled)
		if err != nil {
			return err
		}
		s.out.Unread += one.Unread
		if len(one.Missing)+len(one.Variants)+len(one.Variables)+one.Unread == 0 {
			s.out.Alike++
			continue
		}
		s.out.Apps = append(s.out.Apps, one)
		for _, v := range one.Variants {
			for _, cluster := range v.Clusters {
				deviate[cluster] = true
			}
		}
		for _, cluster := range slices.Concat(one.Missing, one.Against) {
			deviate[cluster] = true
		}
	}
	s.out.Deviate = slices.AppendSeq(make([]string, 0, len(deviate)), maps.Keys(deviate)) // never nil: JSON has a list
	slices.Sort(s.out.Deviate)
	return nil
}

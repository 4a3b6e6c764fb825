package site

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/internal/secret"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const (
	layerRows   = 24  // groups of clusters with the same files that are explained for an app
	layerValues = 400 // values that are listed for an app
	valueWidth  = 120 // characters of a value
)

// Layers says which layers reach which clusters of an app, and which values they override.
type Layers struct {
	Columns []string // layers, lowest precedence first
	Rows    []LayerRow
	Values  []LayerValue
	More    int // clusters that were not explained
	Cut     int // values that are not listed
	Note    string
}

// LayerRow is a group of clusters that take the same files.
type LayerRow struct {
	Clusters []string
	Cells    []LayerCell // one for each column
}

// LayerCell is what a layer gives to a group of clusters.
type LayerCell struct {
	Value     string // of the label
	Files     []string
	Set       int // values that the layer sets
	Wins      int // of them, those that no later layer overrides
	Component bool
}

// LayerValue is a value that several layers set, or that differs between clusters.
type LayerValue struct {
	Source   string
	Path     string
	Outcomes []Outcome
}

// Outcome is what applies to a value on some clusters, and what it overrides.
type Outcome struct {
	Value      string
	Deleted    bool
	Layer      string
	Place      string // file:line
	Overridden []string
	Clusters   []string
}

// layers explains every app at the trunk's tip.
func (b *reader) layers() error {
	view, err := b.h.Open(b.ctx, b.request.Trunk.Tree)
	if err != nil {
		return err
	}
	targets := map[string][]fleet.Target{}
	for _, t := range b.fleet.Targets() {
		targets[t.App.Name] = append(targets[t.App.Name], t)
	}
	for _, a := range b.out.Apps {
		list := targets[a.Name]
		if len(list) == 0 {
			continue
		}
		if err := b.ctx.Err(); err != nil {
			return err
		}
		x := &layerReader{reader: b, defaults: func(t fleet.Target, source string) explain.Defaults {
			d, err := view.Defaults(b.ctx, t, source)
			if err != nil {
				a.Layers.Note = "the defaults of the chart are not shown: " +
					safetext.Message(firstLine(err), 1, 2*valueWidth)
			}
			return d
		}, out: &Layers{}, values: map[string]*LayerValue{}}
		a.Layers = x.out
		x.app(list)
	}
	return nil
}

// layerReader explains one app.
type layerReader struct {
	*reader
	defaults func(t fleet.Target, source string) explain.Defaults
	out      *Layers
	values   map[string]*LayerValue
	order    []string
}

func (x *layerReader) app(list []fleet.Target) {
	x.out.Columns = []string{"defaults", "global"}
	for _, l := range x.fleet.Spec.Layers {
		x.out.Columns = append(x.out.Columns, l.Name)
	}
	groups := map[string]int{}
	var first []fleet.Target
	for _, t := range list {
		key := filesKey(x.fleet, t)
		if i, ok := groups[key]; ok {
			if i >= 0 {
				x.out.Rows[i].Clusters = append(x.out.Rows[i].Clusters, t.Cluster.Name)
			} else {
				x.out.More++
			}
			continue
		}
		if len(first) == layerRows {
			groups[key] = -1
			x.out.More++
			continue
		}
		groups[key] = len(first)
		first = append(first, t)
		x.out.Rows = append(x.out.Rows, LayerRow{
			Clusters: []string{t.Cluster.Name},
			Cells:    make([]LayerCell, len(x.out.Columns)),
		})
	}
	for i, t := range first {
		x.learn(t)
		x.row(&x.out.Rows[i], t)
	}
	x.contested()
}

// filesKey returns a key that targets with equal files share, and imported ones with the same charts and values of one
// object.
func filesKey(f *fleet.Fleet, t fleet.Target) string {
	var key strings.Builder
	if i := t.Imported(); i != nil {
		fmt.Fprintf(&key, "%s:%d\x00", i.File, i.Line)
		for n := range i.Sources {
			text, err := json.Marshal([]any{i.Sources[n].Helm, i.Sources[n].Packing, i.Sources[n].Values})
			if err != nil { // it is like no other
				text = []byte(t.Cluster.Name)
			}
			key.Write(text)
		}
		key.WriteByte('\x01')
	}
	for _, list := range [][]fleet.LayerFile{f.ValuesFiles(t), f.Components(t)} {
		for _, file := range list {
			key.WriteString(file.Path + "\x00" + file.At + "\x00" + file.Source + "\x00")
		}
		key.WriteByte('\x01')
	}
	return key.String()
}

// learn teaches the mask the Secrets of a target, so that their values are not shown where a layer sets them.
func (x *layerReader) learn(t fleet.Target) {
	for _, p := range x.apps[t.App.Name].Placed {
		if p.Cluster.Name != t.Cluster.Name || p.Desired.IsZero() {
			continue
		}
		files, err := x.h.Store.Tree(x.ctx, p.Desired)
		if err != nil {
			x.note("Secrets of %s on %s are not known to the mask: %v", t.App.Name, t.Cluster.Name, err)
			return
		}
		for _, file := range files {
			if !objects.IsSecret(file.Name) {
				continue
			}
			data, err := x.h.Store.Blob(x.ctx, file.Hash)
			if err != nil {
				x.note("Secrets of %s on %s are not known to the mask: %v", t.App.Name, t.Cluster.Name, err)
				return
			}
			if one, err := objects.DecodeOne(data); err == nil {
				x.mask.Learn(one)
			}
		}
	}
}

func (x *layerReader) row(row *LayerRow, t fleet.Target) {
	add := func(file fleet.LayerFile, component bool) {
		if i := slices.Index(x.out.Columns, file.Layer); i >= 0 {
			c := &row.Cells[i]
			c.Value, c.Files, c.Component = file.Value, append(c.Files, file.Path), c.Component || component
		}
	}
	for _, file := range x.fleet.ValuesFiles(t) {
		add(file, false)
	}
	for _, file := range x.fleet.Components(t) {
		add(file, true)
	}
	resolved, err := x.fleet.Resolve(t)
	if err != nil {
		x.note("the layers of %s are incomplete: %v", t.App.Name, err)
		return
	}
	for _, source := range resolved.Sources {
		if source.Helm == nil {
			continue
		}
		chains, err := explain.Values(x.fleet, t, source.Name, "", x.defaults(t, source.Name))
		if err != nil {
			x.note("the values of %s are not explained: %v", t.App.Name, err)
			continue
		}
		for _, chain := range withoutParents(chains) {
			x.count(row, chain)
			x.value(source.Name, chain, row.Clusters)
		}
	}
}

// count adds a value to the layers that set it.
func (x *layerReader) count(row *LayerRow, chain explain.Chain) {
	for _, o := range chain.Origins {
		i := slices.Index(x.out.Columns, o.Layer)
		if i < 0 {
			continue
		}
		row.Cells[i].Set++
		if o.Winner {
			row.Cells[i].Wins++
		}
	}
}

// withoutParents leaves out mappings whose members are listed: mappings merge, so that no layer's mapping applies as a
// whole. Chains are sorted by path.
func withoutParents(chains []explain.Chain) []explain.Chain {
	parents := map[string]bool{}
	for _, c := range chains {
		for i, r := range c.Path {
			if r == '.' {
				parents[c.Path[:i]] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(chains), func(c explain.Chain) bool {
		_, mapping := c.Origins[len(c.Origins)-1].Set.(map[string]any)
		return mapping && parents[c.Path]
	})
}

// value adds what applies to a value on a group of clusters.
func (x *layerReader) value(source string, chain explain.Chain, clusters []string) {
	last := chain.Origins[len(chain.Origins)-1]
	key := source + "\x00" + chain.Path
	v := x.values[key]
	if v == nil {
		v = &LayerValue{Source: source, Path: chain.Path}
		x.values[key] = v
		x.order = append(x.order, key)
	}
	o := Outcome{
		Value: x.shown(chain.Path, last), Deleted: last.Deletes, Layer: layerName(last),
		Place: placeName(last), Clusters: clusters,
	}
	for _, earlier := range chain.Origins[:len(chain.Origins)-1] {
		o.Overridden = append(o.Overridden, layerName(earlier)+" "+x.shown(chain.Path, earlier))
	}
	for i := range v.Outcomes {
		if have := &v.Outcomes[i]; have.Value == o.Value && have.Place == o.Place &&
			slices.Equal(have.Overridden, o.Overridden) {
			have.Clusters = append(slices.Clone(have.Clusters), clusters...)
			return
		}
	}
	v.Outcomes = append(v.Outcomes, o)
}

// contested keeps the values that several layers set, or that differ between clusters.
func (x *layerReader) contested() {
	slices.Sort(x.order)
	for _, key := range x.order {
		v := x.values[key]
		if len(v.Outcomes) == 1 && len(v.Outcomes[0].Overridden) == 0 {
			continue
		}
		if len(x.out.Values) == layerValues {
			x.out.Cut++
			continue
		}
		x.out.Values = append(x.out.Values, *v)
	}
}

// withoutSecrets masks the strings below names that are likely those of secrets.
func withoutSecrets(name string, v any) any {
	switch one := v.(type) {
	case string:
		if one != "" && secret.Named(name) {
			return "(masked)"
		}
	case map[string]any:
		out := make(map[string]any, len(one))
		for k, inner := range one {
			out[k] = withoutSecrets(k, inner)
		}
		return out
	case []any:
		out := make([]any, len(one))
		for i, inner := range one {
			out[i] = withoutSecrets(name, inner)
		}
		return out
	}
	return v
}

// shown formats a value on one line and masks secrets. A value with references appears as it is in the file.
func (x *layerReader) shown(path string, o explain.Origin) string {
	if o.Deletes {
		return "(deleted)"
	}
	if o.Elsewhere { // the value can be that of a Secret, which the mask does not know
		return "(not in the object)"
	}
	if o.Raw != "" && !secret.Named(path) {
		return safetext.Line(safetext.Shorten(o.Raw, valueWidth))
	}
	masked := x.mask.Mask(manifest.Object{"value": withoutSecrets(path, o.Set)})
	data, err := json.Marshal(masked["value"])
	if err != nil {
		return "(not shown)"
	}
	return safetext.Line(safetext.Shorten(string(data), valueWidth))
}

func layerName(o explain.Origin) string {
	if o.Value == "" {
		return o.Layer
	}
	return o.Layer + "=" + o.Value
}

func placeName(o explain.Origin) string {
	if o.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

package diff

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// varied returns a target of which one value is the name of its cluster, and another value is its size.
func varied(app string, n, size int) Target {
	object := func(value string) []Object {
		o := manifest.Object{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"},
			"data": map[string]any{
				"cluster": fmt.Sprintf("c-%03d", n), "value": value,
				"size": strings.Repeat("x", size),
			},
		}
		return []Object{{Key: fmt.Sprint(app, n, value, size), Object: o}}
	}
	return Target{
		App: app, Cluster: fmt.Sprintf("c-%03d", n), Environment: "prod", Before: object("old"),
		After: object(fmt.Sprintf("new on c-%03d", n)),
		Facts: func() map[string]string { return map[string]string{"cluster.name": fmt.Sprintf("c-%03d", n)} },
	}
}

// The order in which targets are added does not change the result, and neither does what the builder forgets between
// them.
func TestBuilderForgets(t *testing.T) {
	t.Parallel()
	var targets []Target
	for _, app := range []string{"web", "api"} {
		for n := range 60 {
			targets = append(targets, varied(app, n, n%2))
		}
	}
	want := Compare(targets, nil, []string{"prod"}, noFleet{})
	if len(want.Groups) != 2 || want.Compared != len(targets) || want.Groups[0].Example != "c-000" ||
		len(want.Groups[0].Clusters) != 60 || !reflect.DeepEqual(want.Groups[0].Varies, []string{"cluster.name"}) {
		t.Fatalf("%d groups: %+v", len(want.Groups), want.Groups)
	}
	b := NewBuilder()
	for _, target := range slices.Backward(targets) {
		b.Add([]Target{target})
		clear(b.known)
	}
	if got := b.ChangeSet(nil, []string{"prod"}, noFleet{}); !reflect.DeepEqual(got, want) {
		t.Errorf("the result of ChangeSet is %+v\nwant %+v", got, want)
	}
}

// What a builder keeps of thousands of targets is what it shows.
func TestBuilderKeepsWhatItShows(t *testing.T) {
	t.Parallel()
	b := NewBuilder()
	const large = 1 << 16
	for n := range 200 { // the changes of all of them would need 25 MiB
		b.Add([]Target{varied("web", n, large)})
	}
	if len(b.order) != 1 || len(b.order[0].objects) != 1 || b.text > 2*large || b.lines > maxKnown {
		t.Errorf("%d groups, %d bytes of contexts, %d lines", len(b.order), b.text, b.lines)
	}
	for n := range 600 { // groups of their own
		b.Add([]Target{varied(fmt.Sprint("app-", n), n, large+n)})
	}
	shown, text := 0, 0
	for _, g := range b.ChangeSet(nil, []string{"prod"}, noFleet{}).Groups {
		for _, l := range g.Objects[0].Context {
			text += len(l)
		}
		if g.Objects[0].Context != nil {
			shown++
		}
	}
	if text > maxContext || text != b.text || shown < 400 || shown == 601 {
		t.Errorf("%d of 601 groups have a context, with %d bytes; counted are %d", shown, text, b.text)
	}
}

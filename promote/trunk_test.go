package promote

import (
	"maps"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// The trunk is read back to every commit that a decision compares with: also to those that a hold names for single apps
// and clusters, and to that of a merge request that a person closed.
func TestNeededCommits(t *testing.T) {
	of := func(prefix string) rollout.Source {
		return rollout.Source{
			Commit: prefix + "1", Apps: map[string]string{"shop": prefix + "2"},
			Clusters: map[string]rollout.ClusterSource{"eu-1": {
				Commit: prefix + "3",
				Apps:   map[string]string{"web": prefix + "4"},
			}},
		}
	}
	states := map[string]*branch.State{
		"prod": {Record: branch.RecordOf("prod", of("runs"), "", 0)},
		"dev":  branch.NewState("env/dev"),
	}
	records := map[string]rollout.Record{"prod": {
		Request: &rollout.Request{Source: of("request")}, Holds: []rollout.Hold{{Source: of("hold")}},
		Declined: &rollout.Offered{Source: of("declined")},
		Opened:   &rollout.Offered{Source: of("opened")},
	}}
	var want []string
	for _, prefix := range []string{"runs", "request", "hold", "declined", "opened"} {
		for _, digit := range []string{"1", "2", "3", "4"} {
			want = append(want, prefix+digit)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(neededCommits(states, records))); !slices.Equal(got, want) {
		t.Errorf("the result of neededCommits is %v, want %v", got, want)
	}
}

// An attacker can make a commit whose id begins like that of another one. A short id that fits both is refused: the
// newest need not be meant.
func TestAmbiguousCommit(t *testing.T) {
	t.Parallel()
	const good, evil, other = "abcdef1234567890", "abcdef1999999999", "1234567aaaaaaaaa"
	l, s := &commands{}, &rollout.Situation{Trunk: rollout.Trunk{other, good, evil}}
	for revision, want := range map[string]string{
		"abcdef1": "", "abcdef12": good, "abcdef19": evil, "1234567": other,
		good: good, "123456": "",
	} {
		got, err := l.source(Command{Revision: revision}, s)
		if (err == nil) != (want != "") || got.Commit != want {
			t.Errorf("%s: the commit is %s, the error is %v, want %q", revision, got.Commit, err, want)
		}
	}
}

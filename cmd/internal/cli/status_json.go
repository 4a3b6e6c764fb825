package cli

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/fleet/expression"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// statusEntry is an environment in the output of `sluice status` and of the verbs that change environments.
type statusEntry struct {
	// Environment is its name.
	Environment string `json:"environment"`
	// Branch is the environment branch.
	Branch string `json:"branch"`
	// Tip is the commit of the branch. It is absent if the branch does not exist.
	Tip string `json:"tip,omitempty"`
	// Commit is the source commit that the environment runs.
	Commit string `json:"commit,omitempty"`
	// Apps maps apps that run another source commit to it.
	Apps map[string]string `json:"apps,omitempty"`
	// Clusters maps clusters that run something else to what they run.
	Clusters map[string]clusterEntry `json:"clusters,omitempty"`
	// Behind is the number of commits of the trunk that the environment does not run.
	Behind int `json:"behind"`
	// Done says what this call did.
	Done []string `json:"done,omitempty"`
	// Refused says which commands of this call were refused, and why.
	Refused []string `json:"refused,omitempty"`
	// Halt stops the environment.
	Halt *haltEntry `json:"halt,omitempty"`
	// Holds keep source commits out after a failure or a rollback.
	Holds []holdEntry `json:"holds,omitempty"`
	// Freezes that are in force.
	Freezes []freezeEntry `json:"freezes,omitempty"`
	// Receipt is what the site of an isolated environment says that it runs. It is absent for other environments.
	Receipt *receiptEntry `json:"receipt,omitempty"`
	// Gates of the next promotion.
	Gates []gateEntry `json:"gates,omitempty"`
	// WaveGates are the gates of the next move of cluster branches.
	WaveGates []gateEntry `json:"waveGates,omitempty"`
	// Waves of the rollout under way, or of the last one.
	Waves []waveEntry `json:"waves,omitempty"`
	// Frozen clusters that are behind.
	Frozen []string `json:"frozen,omitempty"`
	// NotYet lists clusters that do not run yet what the environment branch has for them.
	NotYet []string `json:"notYet,omitempty"`
	// LeftOut lists workspaces that are behind everything else, because they are red, or were, in an environment
	// before.
	LeftOut []string `json:"leftOut,omitempty"`
	// Silent lists apps that have posted no commit status since their clusters moved.
	Silent []silentEntry `json:"silent,omitempty"`
	// WaitsFor is one sentence. It is absent if nothing is pending.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Next is when a gate may change without an event.
	Next time.Time `json:"next,omitzero"`
	// Candidate is the tree that an approval is about.
	Candidate string `json:"candidate,omitempty"`
	// Plan is what the next promotion would do, of a dry run.
	Plan *promote.Plan `json:"plan,omitempty"`
}

// clusterEntry is what one cluster runs.
type clusterEntry struct {
	// Commit is the source commit.
	Commit string `json:"commit"`
	// Apps maps apps that run another source commit to it.
	Apps map[string]string `json:"apps,omitempty"`
}

// receiptEntry is what the newest receipt of an isolated environment says.
type receiptEntry struct {
	// State says whether the receipt may be believed: red if it contradicts what this repository made, unknown without a
	// receipt or with an old one.
	State string `json:"state" jsonschema:"enum=green,enum=red,enum=unknown"`
	// Reason of the state. It is absent if the state is green.
	Reason string `json:"reason,omitempty"`
	// Sequence is the number of the receipt. It is absent without a receipt, like everything below.
	Sequence int64 `json:"sequence,omitempty"`
	// Site is the name of the site.
	Site string `json:"site,omitempty"`
	// Made is when the site made it.
	Made time.Time `json:"made,omitzero"`
	// AgeSeconds is how old the receipt is.
	AgeSeconds int64 `json:"ageSeconds,omitempty"`
	// Bundle is the number of the bundle that the site imported last.
	Bundle int64 `json:"bundle,omitempty"`
	// Commit is the source commit that the site's environment branch has.
	Commit string `json:"commit,omitempty"`
	// Since is when the branch got it.
	Since time.Time `json:"since,omitzero"`
	// Healthy is since when the site's rollout is complete and healthy. It is absent if it is not.
	Healthy time.Time `json:"healthy,omitzero"`
	// Halt stops the environment on the site.
	Halt *haltEntry `json:"halt,omitempty"`
	// Freezes are in force on the site.
	Freezes []freezeEntry `json:"freezes,omitempty"`
	// Clusters are what the clusters have, by name.
	Clusters map[string]receiptCluster `json:"clusters,omitempty"`
}

// receiptCluster is what the branch of a cluster has on the site.
type receiptCluster struct {
	// Tree is the tree of its branch. It is absent if there is no branch.
	Tree string `json:"tree,omitempty"`
	// Since is when the branch got it.
	Since time.Time `json:"since,omitzero"`
}

// haltEntry is a halt.
type haltEntry struct {
	// By is the person who halted it, or Sluice.
	By string `json:"by"`
	// Reason of the halt.
	Reason string `json:"reason"`
	// Since is when it was halted.
	Since time.Time `json:"since"`
}

// holdEntry keeps a source commit out of a scope.
type holdEntry struct {
	// Cause says why.
	Cause string `json:"cause" jsonschema:"enum=failed,enum=rolledBack,enum=stopped"`
	// Commit is the source commit that is held back.
	Commit string `json:"commit"`
	// Wave whose clusters are listed.
	Wave string `json:"wave,omitempty"`
	// Clusters of the scope. It is absent for all.
	Clusters []string `json:"clusters,omitempty"`
	// Apps of the scope. It is absent for all.
	Apps []string `json:"apps,omitempty"`
	// By is the person who rolled it back, or Sluice.
	By string `json:"by"`
	// Reason of the rollback.
	Reason string `json:"reason,omitempty"`
	// Since is when the hold began.
	Since time.Time `json:"since"`
	// Ends says what ends it.
	Ends string `json:"ends"`
}

// freezeEntry is a time without promotions.
type freezeEntry struct {
	// Cluster that is frozen. It is absent for the environment.
	Cluster string `json:"cluster,omitempty"`
	// By is the person who froze it. It is absent for a freeze of sluice.yaml.
	By string `json:"by,omitempty"`
	// Reason of the freeze.
	Reason string `json:"reason"`
	// From is when it begins.
	From time.Time `json:"from"`
	// Until is when it ends. It is absent for a freeze that somebody must end.
	Until time.Time `json:"until,omitzero"`
}

// waveEntry is where a wave stands.
type waveEntry struct {
	// Name of the wave.
	Name string `json:"name"`
	// State of the wave.
	State string `json:"state" jsonschema:"enum=pending,enum=moving,enum=baking,enum=done,enum=rolledBack,enum=failed"`
	// Moved is the number of clusters that run what the environment desires.
	Moved int `json:"moved"`
	// Total is the number of clusters.
	Total int `json:"total"`
	// Frozen clusters.
	Frozen []string `json:"frozen,omitempty"`
	// Since is when the state began.
	Since time.Time `json:"since,omitzero"`
	// Until is when a bake ends.
	Until time.Time `json:"until,omitzero"`
	// Reason says what the wave waits for.
	Reason string `json:"reason,omitempty"`
}

// gateEntry is a condition of a promotion.
type gateEntry struct {
	// Name of the gate.
	Name string `json:"name"`
	// State of the gate. Only green lets a promotion continue.
	State string `json:"state" jsonschema:"enum=green,enum=waiting,enum=red,enum=unknown"`
	// Reason of the state.
	Reason string `json:"reason,omitempty"`
	// Since is when the state began, if that is known.
	Since time.Time `json:"since,omitzero"`
	// Until is when the gate may change without an event.
	Until time.Time `json:"until,omitzero"`
	// Terms are the parts of an expression that is not true.
	Terms []termEntry `json:"terms,omitempty"`
}

// termEntry is a part of an expression.
type termEntry struct {
	// Text of the part.
	Text string `json:"text"`
	// Value of the part.
	Value string `json:"value" jsonschema:"enum=true,enum=false,enum=unknown"`
	// Facts that the part asks for, with their values.
	Facts []string `json:"facts,omitempty"`
}

func termEntries(in []expression.Term) []termEntry {
	var out []termEntry
	for _, t := range in {
		out = append(out, termEntry(t))
	}
	return out
}

// silentEntry is an app that has posted no commit status.
type silentEntry struct {
	// Cluster of the app.
	Cluster string `json:"cluster"`
	// Apps without a status. It is absent where the pattern names no apps.
	Apps []string `json:"apps,omitempty"`
	// Status is the pattern that no status matches, of the first app.
	Status string `json:"status"`
	// Since is when the cluster moved.
	Since time.Time `json:"since"`
	// Command makes the app's controller post again.
	Command string `json:"command"`
}

func followerEntries(running []promote.Running, promoted map[string]bool, only string) []statusEntry {
	out := []statusEntry{}
	for _, r := range running {
		if promoted[r.Environment] || only != "" && only != r.Environment {
			continue
		}
		one := statusEntry{Environment: r.Environment, Branch: r.Branch}
		if !r.Tip.IsZero() {
			one.Tip = r.Tip.String()
		}
		if !r.Source.IsZero() {
			one.Commit = r.Source.String()
		}
		out = append(out, one)
	}
	return out
}

func gateEntries(in []rollout.Gate) []gateEntry {
	var out []gateEntry
	for _, g := range in {
		out = append(out, gateEntry{g.Name, string(g.State), g.Reason, g.Since, g.Until, termEntries(g.Terms)})
	}
	return out
}

func statusEntries(list []promote.Status, environment string) []statusEntry {
	out := []statusEntry{}
	for i := range list {
		if e := &list[i]; environment == "" || e.Environment == environment {
			out = append(out, entryOf(e))
		}
	}
	return out
}

func entryOf(e *promote.Status) statusEntry {
	d := &e.Decision
	one := statusEntry{
		Environment: e.Environment, Branch: e.Branch, Tip: e.Tip, Commit: e.Source.Commit, Apps: e.Source.Apps,
		Behind: e.Behind, Done: e.Done, Refused: e.Refused,
		Gates: gateEntries(d.Gates), WaveGates: gateEntries(d.WaveGates), Frozen: d.Frozen, NotYet: d.Behind,
		LeftOut:  d.LeftOut,
		WaitsFor: d.WaitsFor, Next: d.Next, Candidate: e.Candidate, Plan: e.Plan,
	}
	for _, name := range slices.Sorted(maps.Keys(e.Source.Clusters)) {
		if one.Clusters == nil {
			one.Clusters = map[string]clusterEntry{}
		}
		one.Clusters[name] = clusterEntry(e.Source.Clusters[name])
	}
	one.Halt = haltOf(d.Record.Halt)
	for _, h := range d.Record.Holds {
		one.Holds = append(one.Holds, holdEntry{
			Cause: string(h.Cause), Commit: h.Source.Commit, Wave: h.Wave, Clusters: h.Clusters, Apps: h.Apps,
			By: h.Actor(), Reason: h.Reason, Since: h.Since,
			Ends: h.Ends(e.Environment, "sluice"),
		})
	}
	one.Freezes, one.Receipt = freezeEntries(d.Freezes), receiptOf(e.Site)
	for _, s := range d.Silent {
		one.Silent = append(one.Silent, silentEntry{
			Cluster: s.Cluster, Apps: s.Apps, Status: s.Status, Since: s.Since,
			Command: s.Command(),
		})
	}
	for _, w := range d.Waves {
		one.Waves = append(one.Waves, waveEntry{
			w.Name, string(w.State), w.Moved, w.Total, w.Frozen, w.Since, w.Until,
			w.Reason,
		})
	}
	return one
}

func haltOf(h *rollout.Halt) *haltEntry {
	if h == nil {
		return nil
	}
	return &haltEntry{By: cmp.Or(h.By, "Sluice"), Reason: h.Reason, Since: h.At}
}

func freezeEntries(in []rollout.Freeze) []freezeEntry {
	var out []freezeEntry
	for _, f := range in {
		out = append(out, freezeEntry{Cluster: f.Target, By: f.By, Reason: f.Reason, From: f.From, Until: f.Until})
	}
	return out
}

func receiptOf(s *promote.SiteStatus) *receiptEntry {
	if s == nil {
		return nil
	}
	out := &receiptEntry{
		State: string(s.State), Reason: s.Reason, Sequence: s.Sequence, Site: s.Name, Made: s.Made, AgeSeconds: int64(s.Age.Seconds()),
		Bundle: s.Bundle, Commit: s.Source.Commit, Since: s.Since, Healthy: s.Healthy, Halt: haltOf(s.Halt),
		Freezes: freezeEntries(s.Freezes),
	}
	for name, c := range s.Clusters {
		if out.Clusters == nil {
			out.Clusters = map[string]receiptCluster{}
		}
		one := receiptCluster{Since: c.Since}
		if !c.Tree.IsZero() {
			one.Tree = c.Tree.String()
		}
		out.Clusters[name] = one
	}
	return out
}

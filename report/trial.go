package report

import "time"

// Trial is what Sluice would have said about the latest changes of a repository.
type Trial struct {
	Repository string        `json:"repository"` // its folder or address
	Trunk      string        `json:"trunk"`      // the revision whose changes are reviewed
	Head       string        `json:"head"`       // its commit, in full
	Version    string        `json:"version"`    // of Sluice
	Layout     TrialLayout   `json:"layout"`
	Changes    []TrialChange `json:"changes"` // the newest first
	Next       []TrialStep   `json:"next"`    // what to do to read the rest
	Took       time.Duration `json:"took"`    // nanoseconds
}

// TrialLayout is what was found in the repository.
type TrialLayout struct {
	Found    string   `json:"found"`    // what was found, on one line
	Detected bool     `json:"detected"` // there is no sluice.yaml
	Clusters []string `json:"clusters"` // names
	Targets  int      `json:"targets"`  // read and not suspended
	// of Targets, those with charts of an exact version that sluice.lock lacks
	Pinned    int `json:"pinned"`
	Suspended int `json:"suspended"` // imported targets that their tool leaves alone
	// the share of the Flux objects that clusters reach; "" without Flux
	Coverage   string   `json:"coverage,omitempty"`
	Unreached  []string `json:"unreached,omitempty"`
	Unreadable []string `json:"unreadable,omitempty"` // why targets cannot be read, grouped
	Failed     int      `json:"failed"`               // targets that cannot be read
}

// TrialChange is one change of the trunk with its review.
type TrialChange struct {
	Commit string        `json:"commit"`
	Title  string        `json:"title"` // the first line of its message
	Author string        `json:"author"`
	When   time.Time     `json:"when"`
	Merge  bool          `json:"merge"`
	Took   time.Duration `json:"took"` // nanoseconds
	Review *Review       `json:"review"`
}

// TrialStep is one thing to do, with a text to write into a file or to run.
type TrialStep struct {
	Title string `json:"title"`
	Text  string `json:"text,omitempty"`
}

// Risk returns the gravest risk of a review's changes; "" if nothing changes.
func Risk(r *Review) string {
	if r.Changes == nil || len(r.Changes.Groups) == 0 {
		return ""
	}
	out := r.Changes.Groups[0].Risk
	for _, l := range r.Changes.Losses {
		if l.Risk.Rank() < out.Rank() {
			out = l.Risk
		}
	}
	return string(out)
}

// Size counts the objects that a review's change adds, changes and removes; "" if it touches none.
func Size(r *Review) string {
	if r.Changes == nil {
		return ""
	}
	return joined(ChangeCounts(r.Changes.Totals), Rolls(r.Changes.Totals.Workloads))
}

// Verdicts counts the changes of a trial by verdict.
func (t *Trial) Verdicts() map[Verdict]int {
	out := map[Verdict]int{}
	for i := range t.Changes {
		out[t.Changes[i].Review.Verdict]++
	}
	return out
}

// Summary says on one line what the reviews of a trial came to.
func (t *Trial) Summary() string {
	n := t.Verdicts()
	var parts []string
	for _, v := range []struct {
		verdict Verdict
		words   string
	}{
		{VerdictError, "incomplete"},
		{VerdictFail, "refused by the policy"},
		{VerdictCaution, "critical"},
		{VerdictWarn, "with warnings"},
		{VerdictPass, "without objection"},
	} {
		if n[v.verdict] > 0 {
			parts = append(parts, Number(n[v.verdict])+" "+v.words)
		}
	}
	return Count(len(t.Changes), "change") + ": " + joined(parts...)
}

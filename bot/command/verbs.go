package command

import (
	"slices"
	"strings"
)

// Spec is the grammar of one verb, as data: what Parse accepts, what Help shows, and what right it takes.
type Spec struct {
	Verb      Verb
	Arguments []Argument
	Flags     []Flag
	Right     Right
	Does      string // one sentence
}

// Argument is a word that a verb needs.
type Argument struct {
	Name  string // as Help shows it
	kind  kind
	field func(*Command) *string
	list  func(*Command) *[]string
}

// Flag is an option of a verb. One without a value is true by being there.
type Flag struct {
	Name     string // without --
	Value    string // what Help calls the value; "" for a flag without
	Repeated bool   // may be there several times
	Needed   bool
	kind     kind
	field    func(*Command) *string
	list     func(*Command) *[]string
}

func (a Argument) get(c *Command) string {
	if a.list != nil {
		return strings.Join(*a.list(c), " ")
	}
	return *a.field(c)
}

func (f Flag) values(c *Command) []string {
	if f.list != nil {
		return *f.list(c)
	}
	if v := *f.field(c); v != "" {
		return []string{v}
	}
	return nil
}

// kind is what a value must look like.
type kind int

const (
	kindName kind = iota
	kindRevision
	kindTime
	kindText
	kindPath
)

func envOf(c *Command) *string        { return &c.Env }
func targetOf(c *Command) *string     { return &c.Target }
func pathOf(c *Command) *string       { return &c.Path }
func commitOf(c *Command) *string     { return &c.Commit }
func toOf(c *Command) *string         { return &c.To }
func waveOf(c *Command) *string       { return &c.Wave }
func untilOf(c *Command) *string      { return &c.Until }
func reasonOf(c *Command) *string     { return &c.Reason }
func appsOf(c *Command) *[]string     { return &c.App }
func clustersOf(c *Command) *[]string { return &c.Clusters }

// Verbs are all verbs, in the order in which Help shows them.
func Verbs() []Spec {
	env := Argument{Name: "ENV", kind: kindName, field: envOf}
	target := Argument{Name: "ENV|CLUSTER", kind: kindName, field: targetOf}
	app := Flag{Name: "app", Value: "A", Repeated: true, kind: kindName, list: appsOf}
	cluster := Flag{Name: "cluster", Value: "C", Repeated: true, kind: kindName, list: clustersOf}
	reason := Flag{Name: "reason", Value: "TEXT", kind: kindText, field: reasonOf}
	needed := reason
	needed.Needed = true
	return []Spec{
		{Verb: VerbHelp, Right: RightRead, Does: "Shows this table."},
		{Verb: VerbStatus, Right: RightRead, Does: "Shows what each environment runs, and what promotions wait for."},
		{
			Verb: VerbDiff, Right: RightRead, Does: "Shows what changes, narrowed to an environment, apps or clusters.",
			Flags: []Flag{{Name: "env", Value: "ENV", kind: kindName, field: envOf}, app, cluster},
		},
		{
			Verb: VerbExplain, Right: RightRead, Does: "Shows which layer a value comes from.",
			Arguments: []Argument{
				{Name: "APP", kind: kindName, list: appsOf},
				{Name: "CLUSTER", kind: kindName, list: clustersOf},
				{Name: "PATH", kind: kindPath, field: pathOf},
			},
		},
		{Verb: VerbRetry, Right: RightWrite, Does: "Runs again what failed."},
		{Verb: VerbCancel, Right: RightWrite, Does: "Stops what runs for this merge request."},
		{Verb: VerbTrust, Right: RightWrite, Does: "Lets Sluice render this commit of somebody without the right to push."},
		{
			Verb: VerbApprove, Right: RightEnvironment, Does: "Agrees to the promotion as it stands now; a change of it needs a new approval.",
			Arguments: []Argument{env},
		},
		{
			Verb: VerbPromote, Right: RightEnvironment, Does: "Brings a commit to an environment, whole or for chosen apps; `--now` does not wait.",
			Arguments: []Argument{env},
			Flags: []Flag{
				app,
				{Name: "commit", Value: "REV", kind: kindRevision, field: commitOf},
				{Name: "now"},
				reason,
			},
		},
		{
			Verb: VerbRollback, Right: RightEnvironment, Does: "Restores an earlier state of an environment, of a wave, of clusters or of apps.",
			Arguments: []Argument{env},
			Flags: []Flag{
				{Name: "to", Value: "REV", kind: kindRevision, field: toOf},
				{Name: "wave", Value: "W", kind: kindName, field: waveOf},
				cluster, app,
			},
		},
		{
			Verb: VerbFreeze, Right: RightEnvironment, Does: "Lets no promotion into an environment or a cluster.",
			Arguments: []Argument{target},
			Flags:     []Flag{{Name: "until", Value: "T", kind: kindTime, field: untilOf}, needed},
		},
		{
			Verb: VerbUnfreeze, Right: RightEnvironment, Does: "Ends a freeze, and brings what was frozen up to date.",
			Arguments: []Argument{target},
		},
		{Verb: VerbHalt, Right: RightEnvironment, Does: "Stops the running promotion of an environment where it is.", Arguments: []Argument{env}},
		{Verb: VerbResume, Right: RightEnvironment, Does: "Lets a halted promotion go on.", Arguments: []Argument{env}},
	}
}

// Usage is the verb's grammar on one line.
func (s Spec) Usage() string {
	parts := []string{prefix, string(s.Verb)}
	for _, a := range s.Arguments {
		parts = append(parts, a.Name)
	}
	for _, f := range s.Flags {
		text := "--" + f.Name
		if f.Value != "" {
			text += " " + f.Value
		}
		if !f.Needed {
			text = "[" + text + "]"
		}
		if f.Repeated {
			text += "…"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// Help is the grammar as a Markdown table.
func Help() string {
	var b strings.Builder
	b.WriteString("| command | what it does | right |\n|---|---|---|\n")
	cell := strings.NewReplacer("|", `\|`)
	for _, s := range Verbs() {
		right := string(s.Right)
		if s.Right == RightEnvironment {
			right = "per environment"
		}
		b.WriteString("| `" + cell.Replace(s.Usage()) + "` | " + cell.Replace(s.Does) + " | " + right + " |\n")
	}
	return b.String()
}

func verbNames() []string {
	var out []string
	for _, s := range Verbs() {
		out = append(out, string(s.Verb))
	}
	return out
}

func (s Spec) flag(name string) (Flag, bool) {
	i := slices.IndexFunc(s.Flags, func(f Flag) bool { return f.Name == name })
	if i < 0 {
		return Flag{}, false
	}
	return s.Flags[i], true
}

package command

import (
	"slices"
	"strings"
)

// Spec is the grammar of one verb, as data. Parse, Help and the command line's verbs of the same name follow it.
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

// Flag is an option of a verb. A flag without a value is true if it is present.
type Flag struct {
	Name     string // without --
	Value    string // name of the value in Help; "" for a flag without a value
	Usage    string // for the command line's help: a phrase that has the value's name in backticks
	Repeated bool   // may be present several times
	Needed   bool
	kind     kind
	field    func(*Command) *string
	list     func(*Command) *[]string
	on       func(*Command) *bool // of a flag without a value
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

// kind is the form of a value.
type kind int

const (
	kindName kind = iota
	kindApp
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
func nowOf(c *Command) *bool          { return &c.Now }
func cancelOf(c *Command) *bool       { return &c.Cancel }
func againOf(c *Command) *string      { return &c.Again }
func holdsOf(c *Command) *[]string    { return &c.Hold }
func appsOf(c *Command) *[]string     { return &c.App }
func clustersOf(c *Command) *[]string { return &c.Clusters }
func spacesOf(c *Command) *[]string   { return &c.Spaces }

// Verbs returns all verbs in the order in which Help shows them.
func Verbs() []Spec { return append(reviewVerbs(), environmentVerbs()...) }

func flagApp() Flag {
	return Flag{Name: "app", Value: "A", Usage: "only these `apps`", Repeated: true, kind: kindApp, list: appsOf}
}

func flagWorkspace() Flag {
	return Flag{
		Name: "workspace", Value: "WS", Usage: "only the apps of these `workspaces`", Repeated: true,
		kind: kindName, list: spacesOf,
	}
}

func flagCluster() Flag {
	return Flag{
		Name: "cluster", Value: "C", Usage: "only these `clusters`", Repeated: true, kind: kindName,
		list: clustersOf,
	}
}

func flagReason(needed bool) Flag {
	return Flag{
		Name: "reason", Value: "TEXT", Usage: "`text` that is recorded with the change", Needed: needed,
		kind: kindText, field: reasonOf,
	}
}

// reviewVerbs are those for a merge request.
func reviewVerbs() []Spec {
	return []Spec{
		{Verb: VerbHelp, Right: RightRead, Does: "Shows this table."},
		{Verb: VerbStatus, Right: RightRead, Does: "Shows what each environment runs, and what promotions wait for."},
		{
			Verb: VerbDiff, Right: RightRead, Does: "Shows what changes, narrowed to an environment, apps or clusters.",
			Flags: []Flag{
				{Name: "env", Value: "ENV", Usage: "only this `environment`", kind: kindName, field: envOf},
				flagApp(), flagCluster(),
			},
		},
		{
			Verb: VerbExplain, Right: RightRead, Does: "Shows which layer a value comes from.",
			Arguments: []Argument{
				{Name: "APP", kind: kindApp, list: appsOf},
				{Name: "CLUSTER", kind: kindName, list: clustersOf},
				{Name: "PATH", kind: kindPath, field: pathOf},
			},
		},
		{
			Verb: VerbDepends, Right: RightRead,
			Does: "Shows the merge requests that this one depends on, and their state.",
		},
		{Verb: VerbRetry, Right: RightWrite, Does: "Repeats what failed."},
		{Verb: VerbCancel, Right: RightWrite, Does: "Stops the running review of this merge request."},
		{Verb: VerbTrust, Right: RightWrite, Does: "Lets Sluice render this commit of an author without write access."},
	}
}

// environmentVerbs are those for an environment. The command line has them too.
func environmentVerbs() []Spec {
	env := Argument{Name: "ENV", kind: kindName, field: envOf}
	target := Argument{Name: "ENV|CLUSTER", kind: kindName, field: targetOf}
	return []Spec{
		{
			Verb: VerbApprove, Right: RightEnvironment,
			Does:      "Approves the promotion as it is now; a changed promotion needs a new approval.",
			Arguments: []Argument{env}, Flags: []Flag{flagReason(false)},
		},
		{
			Verb: VerbPromote, Right: RightEnvironment,
			Does:      "Brings an environment to a commit, for all apps, some apps or workspaces; `--now` skips gates that wait.",
			Arguments: []Argument{env},
			Flags: []Flag{
				flagApp(), flagWorkspace(),
				{
					Name: "commit", Value: "REV", Usage: "source `commit` of the trunk", kind: kindRevision,
					field: commitOf,
				},
				{
					Name: "now", Usage: "skip bake times, windows and the promotion under way; needs --reason", on: nowOf,
				},
				{
					Name: "cancel", Usage: "withdraw the promotion that somebody asked for and that has not begun", on: cancelOf,
				},
				{
					Name: "again", Value: "TEXT", Usage: "`text` that says why what was rolled back comes again",
					kind: kindText, field: againOf,
				},
				flagReason(false),
			},
		},
		{
			Verb: VerbRollback, Right: RightEnvironment,
			Does:      "Restores an earlier state of an environment, of a wave, of clusters, of apps or of workspaces.",
			Arguments: []Argument{env},
			Flags: []Flag{
				{
					Name: "to", Value: "REV",
					Usage: "source `commit`, or commit of the environment branch, to restore (default: the state before)", kind: kindRevision, field: toOf,
				},
				{Name: "wave", Value: "W", Usage: "only the clusters of this `wave`", kind: kindName, field: waveOf},
				flagCluster(), flagApp(), flagWorkspace(), flagReason(false),
			},
		},
		{
			Verb: VerbFreeze, Right: RightEnvironment, Does: "Keeps an environment or a cluster as it is.",
			Arguments: []Argument{target},
			Flags: []Flag{
				{
					Name: "until", Value: "T",
					Usage: "`time`: 2026-12-27T08:00:00Z, 2026-12-27 or 4h (default: until it is unfrozen)",
					kind:  kindTime, field: untilOf,
				},
				flagReason(true),
			},
		},
		{
			Verb: VerbUnfreeze, Right: RightEnvironment, Does: "Ends a freeze; promotions continue.",
			Arguments: []Argument{target},
		},
		{
			Verb: VerbHalt, Right: RightEnvironment, Does: "Stops the running promotion of an environment.",
			Arguments: []Argument{env}, Flags: []Flag{flagReason(false)},
		},
		{
			Verb: VerbResume, Right: RightEnvironment,
			Does:      "Continues a halted promotion, or ends holds that it names.",
			Arguments: []Argument{env},
			Flags: []Flag{
				{
					Name: "hold", Value: "NAME", Usage: "end the holds with this `name`: an app, a workspace, a cluster, a wave, the held commit, or all",
					Repeated: true, kind: kindApp, list: holdsOf,
				},
				{
					Name: "wave", Value: "W", Usage: "end what is held back on this `wave`", kind: kindName,
					field: waveOf,
				},
				flagCluster(), flagApp(), flagWorkspace(), flagReason(false),
			},
		},
	}
}

// Find returns the grammar of a verb.
func Find(v Verb) (Spec, bool) {
	all := Verbs()
	i := slices.IndexFunc(all, func(s Spec) bool { return s.Verb == v })
	if i < 0 {
		return Spec{}, false
	}
	return all[i], true
}

// Usage returns the verb's grammar on one line.
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

// Help returns the grammar as a Markdown table.
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

// Flag returns the verb's flag of a name.
func (s Spec) Flag(name string) (Flag, bool) {
	i := slices.IndexFunc(s.Flags, func(f Flag) bool { return f.Name == name })
	if i < 0 {
		return Flag{}, false
	}
	return s.Flags[i], true
}

// flagNames returns the verb's flags for a sentence: "--a, --b and --c".
func (s Spec) flagNames() string {
	var names []string
	for _, f := range s.Flags {
		names = append(names, "--"+f.Name)
	}
	switch n := len(names); n {
	case 0:
		return "no flags"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

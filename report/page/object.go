package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
)

type objectView struct {
	ID          string
	Verb        diff.Verb
	VerbWord    string
	Risk        diff.Risk
	Kind        string
	Title       string
	OldTitle    string // of a renamed object
	Rolls       bool
	Effects     []diff.Effect
	Images      []imageView
	Rights      *rightsView
	Hunks       []hunkView
	Same        []string // objects with the same change
	LikeTitle   string   // the object that shows the same change
	LikeID      string
	LikeWhere   string
	Explain     string // command
	Plus, Minus int
	Noise       []string
	MoreLines   int
}

type imageView struct {
	Containers  string
	Repository  string
	Old, New    string // versions
	OldFull     string // whole names
	NewFull     string
	OtherSource string // the new repository, if it is another one
}

// rightsView is a table of a role's rights, verb by resource.
type rightsView struct {
	Verbs []string
	Rows  []rightsRow
}

type rightsRow struct {
	Resource string
	Cells    []string // kept, added, removed or "" for each verb
}

type hunkView struct {
	Path     string
	Old, New int // numbers of the first lines
	Runs     []run
	Above    string // lines that can be expanded
	Below    string
}

// run is a sequence of lines of one kind.
type run struct {
	Kind string // del, ins or ""
	Text string
}

func (b *builder) object(g *diff.Group, o *report.Folded, id string) *objectView {
	b.kinds.add(o.ID.Kind)
	if b.risks == nil {
		b.risks = map[diff.Risk]bool{}
	}
	b.risks[o.Risk] = true
	out := &objectView{
		ID: id, Verb: o.Verb, VerbWord: report.VerbWord(o.ObjectChange), Risk: o.Risk, Kind: o.ID.Kind,
		Title: o.Title(), Rolls: o.Rolls, Images: imagesOf(o.ObjectChange), Rights: rightsOf(o.ObjectChange),
		Explain: "sluice explain --app " + quote(g.App) + " --cluster " + quote(g.Example),
		Noise:   noiseOf(o.ObjectChange),
	}
	b.groups[o.ObjectChange] = g
	b.anchor(g.App, o.ObjectChange, id)
	for _, same := range o.Same {
		b.anchor(g.App, same, id)
		out.Same = append(out.Same, same.Title())
	}
	if o.OldID.Name != "" {
		out.OldTitle = diff.Title(o.OldID)
	}
	for _, e := range o.Effects {
		if e.Name != diff.EffectImage && (e.Name != diff.EffectRolls || e.Risk != diff.RiskMedium) {
			out.Effects = append(out.Effects, e)
		}
	}
	if o.Like != nil {
		out.LikeTitle, out.LikeID, out.LikeWhere = o.Like.Title(), b.anchors[o.Like],
			diff.Patterns(b.groups[o.Like].Where)
		return out
	}
	b.hunks(out, o.ObjectChange)
	return out
}

// anchor names the element that shows an object.
func (b *builder) anchor(app string, o *diff.ObjectChange, id string) {
	b.anchors[o] = id
	if key := app + "\x00" + o.Title(); b.ids[key] == "" {
		b.ids[key] = id
	}
}

// quote quotes a word for a POSIX shell.
func quote(s string) string {
	safe := strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:")
	if safe == "" && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (b *builder) hunks(out *objectView, o *diff.ObjectChange) {
	left := shownLines
	end := 0 // last line of the text before that a hunk has shown
	for i := range o.Hunks {
		h := &o.Hunks[i]
		lines := h.Lines
		if len(lines) > left {
			out.MoreLines += len(lines) - left
			lines = lines[:left]
		}
		left -= len(lines)
		if len(lines) == 0 {
			continue
		}
		one := hunkView{Path: h.Path, Old: h.OldStart, New: h.NewStart, Runs: runs(lines)}
		one.Above = b.expandable(o.Context, max(end, h.OldStart-1-contextLines), h.OldStart-1)
		end = h.OldStart - 1
		for _, l := range lines {
			switch {
			case strings.HasPrefix(l, "+"):
				out.Plus++
			case strings.HasPrefix(l, "-"):
				out.Minus++
				end++
			default:
				end++
			}
		}
		next := len(o.Context)
		if i+1 < len(o.Hunks) {
			next = max(end, o.Hunks[i+1].OldStart-1-contextLines)
		}
		one.Below = b.expandable(o.Context, end, min(next, end+contextLines))
		end = min(next, end+contextLines)
		out.Hunks = append(out.Hunks, one)
	}
}

// expandable returns the lines [from, to) of a text while there is room for context in the page.
func (b *builder) expandable(text []string, from, to int) string {
	if from < 0 || from >= to || to > len(text) {
		return ""
	}
	lines := make([]string, 0, to-from)
	for _, l := range text[from:to] {
		l = visible(l)
		b.context += len(l)
		lines = append(lines, l)
	}
	if b.context > contextRoom {
		return ""
	}
	return strings.Join(lines, "\n")
}

// visible escapes a line of YAML; one that is very long is shortened.
func visible(l string) string {
	const most = 2000
	return safetext.Line(safetext.Shorten(l, most))
}

// runs joins neighbouring lines of one kind. Added and removed objects are one run.
func runs(lines []string) []run {
	var out []run
	for _, l := range lines {
		kind, text := "", l
		if l != "" {
			switch l[0] {
			case '+':
				kind, text = "ins", l[1:]
			case '-':
				kind, text = "del", l[1:]
			case ' ':
				text = l[1:]
			}
		}
		text = visible(text)
		if n := len(out); n > 0 && out[n-1].Kind == kind {
			out[n-1].Text += "\n" + text
			continue
		}
		out = append(out, run{kind, text})
	}
	return out
}

func imagesOf(o *diff.ObjectChange) []imageView {
	if o.Verb == diff.Removed || o.Verb == diff.Added {
		return nil
	}
	var out []imageView
	for _, r := range report.ImageRows(o) {
		old, now := diff.SplitImage(r.Old), diff.SplitImage(r.New)
		one := imageView{
			Containers: strings.Join(r.Containers, ", "), Repository: now.Repository, Old: old.Version(),
			New: now.Version(), OldFull: r.Old, NewFull: r.New,
		}
		switch {
		case r.Old == "":
			one.Old = "none"
		case r.New == "":
			one.Repository, one.New = old.Repository, "none"
		case old.Repository != now.Repository:
			one.Repository, one.OtherSource = old.Repository, now.Repository
		}
		out = append(out, one)
	}
	return out
}

// rightsOf makes the table of a role, with the verbs in the usual order.
func rightsOf(o *diff.ObjectChange) *rightsView {
	if len(o.Rights) == 0 {
		return nil
	}
	usual := []string{"*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	out := &rightsView{}
	for _, r := range o.Rights {
		if !slices.Contains(out.Verbs, r.Verb) {
			out.Verbs = append(out.Verbs, r.Verb)
		}
	}
	rank := func(verb string) int {
		if i := slices.Index(usual, verb); i >= 0 {
			return i
		}
		return len(usual)
	}
	slices.SortStableFunc(out.Verbs, func(a, b string) int { return rank(a) - rank(b) })
	for _, r := range o.Rights {
		if n := len(out.Rows); n == 0 || out.Rows[n-1].Resource != r.Resource {
			out.Rows = append(out.Rows, rightsRow{Resource: r.Resource, Cells: make([]string, len(out.Verbs))})
		}
		state := "kept"
		switch {
		case !r.Had:
			state = "added"
		case !r.Has:
			state = "removed"
		}
		out.Rows[len(out.Rows)-1].Cells[slices.Index(out.Verbs, r.Verb)] = state
	}
	return out
}

func noiseOf(o *diff.ObjectChange) []string {
	const most = 10
	var out []string
	for i := range o.Noise {
		if i == most {
			out = append(out, report.Count(len(o.Noise)-i, "more field"))
			break
		}
		f := &o.Noise[i]
		text := f.Path
		if f.Had && f.Has {
			text += fmt.Sprintf(": %v → %v", f.Old, f.New)
		}
		out = append(out, safetext.Shorten(text, 300))
	}
	return out
}

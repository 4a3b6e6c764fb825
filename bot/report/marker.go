package report

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/diff"
)

const (
	markerStart = "<!-- sluice-review v1"
	markerEnd   = " -->"
	markerMost  = 16 << 10 // bytes of a marker that is read
	markerIDs   = 100      // groups that a marker remembers
)

// MarkerInfo is what the comment's hidden first line holds. The text of a report cannot forge it: the marker counts on the
// first line alone, which no name or value reaches. Whether the comment is Sluice's own is the author's matter: check that too.
type MarkerInfo struct {
	ID     string   // tells several comments on one merge request apart: the fleet's path or the instance's name
	Head   string   // the commit that was reviewed, in full
	Digest string   // of the comment without its marker: equal digests, nothing to write
	Groups []string // `place:id` of the first groups, for Since
}

// Marker writes the hidden line, without a line break.
func Marker(m MarkerInfo) string {
	var out strings.Builder
	out.WriteString(markerStart)
	for _, f := range [][2]string{{"id", m.ID}, {"head", m.Head}, {"digest", m.Digest}, {"groups", strings.Join(m.Groups, ",")}} {
		if f[1] != "" {
			out.WriteString(" " + f[0] + "=" + markerValue(f[1]))
		}
	}
	out.WriteString(markerEnd)
	return out.String()
}

// markerValue keeps a value on one word that cannot end the HTML comment.
func markerValue(v string) string {
	return strings.NewReplacer("-", "%2D", "+", "%20", "%2C", ",", "%3A", ":").Replace(url.QueryEscape(v))
}

// ParseMarker reads the marker of a comment's body. false: it is no comment of Sluice's.
func ParseMarker(body string) (MarkerInfo, bool) {
	line, _, _ := strings.Cut(body[:min(len(body), markerMost)], "\n")
	line = strings.TrimRight(line, "\r ")
	line, started := strings.CutPrefix(line, markerStart)
	line, ended := strings.CutSuffix(line, strings.TrimLeft(markerEnd, " "))
	if !started || !ended || strings.Contains(line, "--") || line != "" && line[0] != ' ' {
		return MarkerInfo{}, false
	}
	var out MarkerInfo
	for field := range strings.FieldsSeq(line) {
		key, escaped, ok := strings.Cut(field, "=")
		value, err := url.QueryUnescape(escaped)
		if !ok || err != nil {
			return MarkerInfo{}, false
		}
		switch key {
		case "id":
			out.ID = value
		case "head":
			out.Head = value
		case "digest":
			out.Digest = value
		case "groups":
			out.Groups = strings.Split(value, ",")
		}
	}
	return out, true
}

// Digest names the text of a comment, its marker left out.
func Digest(body string) string {
	if strings.HasPrefix(body, markerStart) {
		_, body, _ = strings.Cut(body, "\n")
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n"))))
	return hex.EncodeToString(sum[:8])
}

// Remember gives what a marker keeps of a change set, so that the next review can tell what is new since.
func Remember(c *diff.ChangeSet) []string {
	if c == nil {
		return nil
	}
	out := make([]string, 0, min(len(c.Groups), markerIDs))
	for i := range c.Groups[:min(len(c.Groups), markerIDs)] {
		out = append(out, place(&c.Groups[i])+":"+c.Groups[i].ID)
	}
	return out
}

// place names where a group goes: the app and its clusters.
func place(g *diff.Group) string {
	sum := sha256.Sum256([]byte(g.App + "\x00" + strings.Join(g.Clusters, "\x00")))
	return hex.EncodeToString(sum[:4])
}

// Since tells what became of the groups since the review that a comment's marker remembers. nil if it remembers too little,
// or if it is of the same head.
func Since(last MarkerInfo, head string, c *diff.ChangeSet) *Delta {
	if last.Head == "" || last.Head == head || c == nil || len(last.Groups) >= markerIDs || len(c.Groups) >= markerIDs {
		return nil
	}
	before, byPlace := map[string]bool{}, map[string]string{}
	for _, g := range last.Groups {
		if at, id, ok := strings.Cut(g, ":"); ok {
			before[id], byPlace[at] = true, id
		}
	}
	out := &Delta{Commit: last.Head}
	for i := range c.Groups {
		g := &c.Groups[i]
		switch old := byPlace[place(g)]; {
		case before[g.ID]:
			delete(before, g.ID)
		case old != "":
			out.Changed = append(out.Changed, g.ID)
			delete(before, old)
		default:
			out.New = append(out.New, g.ID)
		}
	}
	for id := range before {
		out.Gone = append(out.Gone, id)
	}
	slices.Sort(out.Gone)
	return out
}

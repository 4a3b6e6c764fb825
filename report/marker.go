package report

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
)

const (
	markerStart = "<!-- sluice-review v1"
	markerEnd   = " -->"
	markerMost  = 16 << 10 // bytes of a marker that are read
	markerIDs   = 100      // groups of one head that a marker remembers; more are not compared
)

// MarkerInfo is the content of the comment's hidden first line. Text of a report cannot forge it: only the first line
// counts, and no name or value reaches that. Callers also check the author of the comment.
type MarkerInfo struct {
	ID     string // tells several comments on one merge request apart: the fleet's path or the instance's name
	Head   string // the reviewed commit, in full
	Digest string // of the comment without its marker; an equal digest means that there is nothing to write
	Groups Groups // of Head, or of the last head before it that rendered completely
	Before Groups // of the head before that, to keep "since your push" when only the trunk moves
}

// Groups remembers the groups of one head.
type Groups struct {
	Head string   // in full; "" if nothing is remembered
	IDs  []string // place:id:app, each a hash
}

// Marker returns the hidden line, without a line break.
func Marker(m MarkerInfo) string {
	var out strings.Builder
	out.WriteString(markerStart)
	for _, f := range [][2]string{
		{"id", m.ID},
		{"head", m.Head},
		{"digest", m.Digest},
		{"groups", strings.Join(m.Groups.IDs, ",")},
		{"of", m.Groups.Head},
		{"before", strings.Join(m.Before.IDs, ",")},
		{"beforeof", m.Before.Head},
	} {
		if f[1] != "" {
			out.WriteString(" " + f[0] + "=" + markerValue(f[1]))
		}
	}
	out.WriteString(markerEnd)
	return out.String()
}

// markerValue encodes a value as one word that cannot end the HTML comment.
func markerValue(v string) string {
	return strings.NewReplacer("-", "%2D", "+", "%20", "%2C", ",", "%3A", ":").Replace(url.QueryEscape(v))
}

// ParseMarker reads the marker of a comment's body. ok is false if the comment is not Sluice's.
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
			out.Groups.IDs = strings.Split(value, ",")
		case "of":
			out.Groups.Head = value
		case "before":
			out.Before.IDs = strings.Split(value, ",")
		case "beforeof":
			out.Before.Head = value
		}
	}
	return out, true
}

// Digest returns a hash of a comment without its marker.
func Digest(body string) string {
	if strings.HasPrefix(body, markerStart) {
		_, body, _ = strings.Cut(body, "\n")
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n"))))
	return hex.EncodeToString(sum[:8])
}

// NextMarker returns the marker of a review's comment, given the marker of the comment that it replaces (zero for
// none). A review that is incomplete remembers the groups of the last complete one: a failed rendering is no news
// about groups.
func NextMarker(id string, r *Review, last MarkerInfo) MarkerInfo {
	out := MarkerInfo{ID: id, Head: r.Head, Groups: last.Groups, Before: last.Before}
	if r.Changes == nil || len(r.Changes.Withheld) > 0 || len(r.Changes.Groups) > markerIDs {
		return out
	}
	if last.Groups.Head != "" && last.Groups.Head != r.Head {
		out.Before = last.Groups
	}
	out.Groups = remember(r)
	return out
}

func remember(r *Review) Groups {
	out := Groups{Head: r.Head, IDs: make([]string, 0, len(r.Changes.Groups))}
	for i := range r.Changes.Groups {
		g := &r.Changes.Groups[i]
		out.IDs = append(out.IDs, place(g)+":"+g.ID+":"+appHash(g.App))
	}
	return out
}

// place names where a group applies: the app and its clusters.
func place(g *diff.Group) string {
	sum := sha256.Sum256([]byte(g.App + "\x00" + strings.Join(g.Clusters, "\x00")))
	return hex.EncodeToString(sum[:4])
}

func appHash(app string) string {
	sum := sha256.Sum256([]byte(app))
	return hex.EncodeToString(sum[:3])
}

// Since compares a review with the last head before it that rendered completely. It returns nil if the marker does not
// remember such a head or if the review itself failed. Groups of apps with withheld targets do not count as gone.
func Since(last MarkerInfo, r *Review) *Delta {
	old := last.Groups
	if old.Head == r.Head {
		old = last.Before
	}
	c := r.Changes
	if old.Head == "" || old.Head == r.Head || c == nil || len(c.Groups) > markerIDs {
		return nil
	}
	apps := map[string]string{} // group ID → app
	byPlace := map[string]string{}
	for _, g := range old.IDs {
		if parts := strings.Split(g, ":"); len(parts) == 3 { // place:id:app
			byPlace[parts[0]], apps[parts[1]] = parts[1], parts[2]
		}
	}
	withheld := map[string]bool{}
	for i := range c.Withheld {
		withheld[appHash(c.Withheld[i].App)] = true
	}
	out := &Delta{Commit: old.Head}
	for i := range c.Groups {
		g := &c.Groups[i]
		_, same := apps[g.ID]
		switch before := byPlace[place(g)]; {
		case same:
			delete(apps, g.ID)
		case before != "":
			out.Changed = append(out.Changed, g.ID)
			delete(apps, before)
		default:
			out.New = append(out.New, g.ID)
		}
	}
	for id, app := range apps {
		if !withheld[app] {
			out.Gone = append(out.Gone, id)
		}
	}
	slices.Sort(out.Gone)
	return out
}

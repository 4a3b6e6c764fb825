package site

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// piece is a part of a text: prose, a command or name in code, a commit, or a time.
type piece struct {
	Text string
	Code bool
	Hash bool
	At   time.Time
}

// commitWord is a full commit id, which pages shorten.
var commitWord = regexp.MustCompile(`\b[0-9a-f]{40}\b`)

// pieces splits a text of Sluice at pairs of backticks, which enclose code, at times and at commits. Without a second
// one, a backtick is a character.
func pieces(text string) []piece {
	var out []piece
	for {
		before, rest, opened := strings.Cut(text, "`")
		code, after, closed := strings.Cut(rest, "`")
		if !opened || !closed {
			return append(out, hashed(dated(text))...)
		}
		out = append(append(out, hashed(dated(before))...), piece{Text: code, Code: true})
		text = after
	}
}

// hashed splits prose at full commit ids.
func hashed(list []piece) []piece {
	var out []piece
	for _, p := range list {
		text, start := p.Text, 0
		for _, at := range commitWord.FindAllStringIndex(text, -1) {
			if at[0] > start {
				out = append(out, piece{Text: text[start:at[0]]})
			}
			out = append(out, piece{Text: text[at[0]:at[1]], Hash: true})
			start = at[1]
		}
		if start == 0 || start < len(text) {
			p.Text = text[start:]
			out = append(out, p)
		}
	}
	return out
}

const stampForm = "2006-01-02 15:04 UTC" // of promote.Stamp

// dated splits a text at times as promote.Stamp writes them, so that pages can show them in the zone of the reader.
func dated(text string) []piece {
	var out []piece
	start := 0
	for i := 0; i+len(stampForm) <= len(text); i++ {
		if text[i] < '0' || text[i] > '9' || !strings.HasPrefix(text[i+len("2006"):], "-") {
			continue
		}
		at, err := time.Parse(stampForm, text[i:i+len(stampForm)])
		if err != nil {
			continue
		}
		if i > start {
			out = append(out, piece{Text: text[start:i]})
		}
		out = append(out, piece{At: at})
		start = i + len(stampForm)
		i = start - 1
	}
	if start < len(text) || start == 0 {
		out = append(out, piece{Text: text[start:]})
	}
	return out
}

// upToDate counts the clusters that hold what their environment branches hold.
func upToDate(f *Fleet) string {
	n := 0
	for _, c := range f.Clusters {
		if c.Current() {
			n++
		}
	}
	noun := "their environments ask for"
	if len(f.Environments) == 1 {
		noun = "the environment asks for"
	}
	return number(n) + " of " + count(len(f.Clusters), "cluster") + " hold what " + noun
}

func number(n int) string {
	const group = 1000
	if n < group {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", number(n/group), n%group)
}

// count writes "1 app", "2 apps", "2 branches".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") || strings.HasSuffix(noun, "s") {
		return number(n) + " " + noun + "es"
	}
	return number(n) + " " + noun + "s"
}

// span writes a duration in its largest unit: "5 minutes", "3 hours", "12 days".
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return count(int(d/time.Second), "second")
	case d < time.Hour:
		return count(int(d/time.Minute), "minute")
	case d < 2*day:
		return count(int(d/time.Hour), "hour")
	}
	return count(int(d/day), "day")
}

func ago(d time.Duration) string {
	if d < time.Minute {
		return "just now"
	}
	return span(d) + " ago"
}

// some names the first of a list, and counts the others.
func some(list []string) string {
	const most = 4
	if len(list) <= most+1 {
		return safetext.Line(strings.Join(list, ", "))
	}
	return safetext.Line(strings.Join(list[:most], ", ")) + fmt.Sprintf(" and %s more", number(len(list)-most))
}

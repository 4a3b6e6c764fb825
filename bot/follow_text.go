package bot

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
)

// The description of a merge request that moves a pin begins with Sluice's part, which ends with a marker. The rest is
// of people. Both are written with Sluice's rights, so words of people must keep the meaning that they had when a
// person wrote them: a line in their block of code must not become a mention or a command. So Sluice removes its own
// part only from the beginning of a description, and only if each byte of it is as Sluice writes it. In any other case
// the whole description is of people, and is below the new part.

// followMarker ends Sluice's part of a description.
const followMarker = "<!-- sluice:follow -->\n"

// What a description says about its branch. Another sentence stands for a branch with commits of somebody else.
const (
	followIntro = "`sluice.lock` pins another repository to its newest commit. The review shows what this changes, and where.\n\n"
	followKeeps = "Sluice keeps this branch at the newest commit until somebody else commits to it. Close the merge request to decline this commit.\n"
	followDone  = "Closed: `sluice.lock` pins this commit already.\n"
	followEnded = "The fleet no longer follows this repository, so Sluice no longer changes this branch. Merge it as it is, or close the merge request and delete the branch.\n"

	followForeign = "**Somebody else has committed to this branch, so Sluice no longer changes it:**\n\n"
	followDelete  = "\nMerge it as it is, or delete the branch, and Sluice opens another merge request.\n"
	followBy      = "by: "
	notPinned     = "not pinned"
)

// followFields begin the lines that name a pin. No line begins with text from outside.
func followFields() [4]string {
	return [4]string{"repository: ", "from:       ", "to:         ", "commit:     "}
}

// requestTitle returns the title of a merge request.
func requestTitle(f *Followed) string {
	moves := report.Tag(f.To)
	if f.From != "" {
		moves = report.Tag(f.From) + " → " + moves
	}
	if f.Back != "" {
		moves += " (" + f.Back + ")"
	}
	return safetext.Brief(f.Name+": "+moves, 200)
}

// ownPart returns Sluice's part of a description. end is what it says about the branch, if nobody else has committed to
// it.
func ownPart(f *Followed, end string) string {
	fields, values := followFields(), [4]string{f.URL, f.From, f.To, f.Commit}
	if f.From == "" {
		values[1] = notPinned
	}
	if f.Back != "" { // not newer: "v1.4.0 at COMMIT" and "v1.4.0 (moved)"
		values[1], values[2] = f.From+" at "+f.Was, f.To+" ("+f.Back+")"
	}
	lines := make([]string, len(values))
	for i, v := range values {
		lines[i] = fields[i] + safetext.Line(v)
	}
	text := followIntro + report.Block(lines) + "\n"
	if f.By != "" {
		text += followForeign + report.Block([]string{followBy + safetext.Line(f.By)}) + followDelete
	} else {
		text += end
	}
	return text + "\n" + followMarker
}

// splitDescription returns the pin that Sluice's part of a description names, and what people wrote. Without such a
// part, the pin is nil.
func splitDescription(body string) (f *Followed, people string) {
	body = strings.ReplaceAll(body, "\r\n", "\n")
	part, rest, ok := strings.Cut(strings.TrimSuffix(body, "\n")+"\n", followMarker)
	part += followMarker
	lines := strings.Split(strings.TrimPrefix(part, followIntro), "\n")
	fields := followFields()
	if !ok || len(lines) < len(fields)+2 {
		return nil, body
	}
	var values [4]string
	for i, field := range fields {
		values[i], ok = strings.CutPrefix(lines[i+1], field)
		if !ok {
			return nil, body
		}
	}
	f = &Followed{URL: values[0], From: values[1], To: values[2], Commit: values[3]}
	if f.From == notPinned {
		f.From = ""
	}
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, followBy) }); i >= 0 {
		f.By = strings.TrimPrefix(lines[i], followBy)
	}
	if !slices.ContainsFunc([]string{followKeeps, followDone, followEnded},
		func(end string) bool { return ownPart(f, end) == part }) {
		return nil, body
	}
	return f, rest
}

// finished returns Sluice's part of a description with another end, for a branch that Sluice no longer changes; "" if
// the description has no such part.
func finished(body, end string) string {
	pin, _ := splitDescription(body)
	if pin == nil {
		return ""
	}
	pin.By = "" // whoever has committed to the branch: nobody waits for a new commit
	return ownPart(pin, end)
}

// describes reports whether a description has Sluice's part already.
func describes(body, own string) bool {
	return strings.Contains(strings.ReplaceAll(body, "\r\n", "\n")+"\n", own)
}

// description returns a new description with what people wrote in the old one, shortened to a number of characters.
func description(own, old string, limit int) string {
	_, people := splitDescription(old)
	for { // the first line that is not blank keeps its indentation
		line, rest, more := strings.Cut(people, "\n")
		if strings.TrimSpace(line) != "" {
			break
		}
		if people = rest; !more {
			return own
		}
	}
	people = strings.TrimRight(people, " \t\r\n")
	if frontMatter(people) {
		lines := strings.Split(people, "\n")
		for i, l := range lines {
			lines[i] = "> " + safetext.Line(l)
		}
		people = report.Block(lines)
	}
	const least = 1000
	return own + "\n" + safetext.Shorten(people, max(limit-len(own)-least, least)) + "\n"
}

// frontMatter reports whether GitLab shows the beginning of a text as a block of code, which it does only at the
// beginning of a description.
func frontMatter(text string) bool {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.Contains(first, "coding:") {
		first, _, _ = strings.Cut(strings.TrimLeft(rest, " \t\r\n"), "\n")
	}
	first = strings.TrimLeft(first, " \t\r\ufeff")
	return strings.HasPrefix(first, "---") || strings.HasPrefix(first, "+++") || strings.HasPrefix(first, ";;;")
}

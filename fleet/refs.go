package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// maxReference limits the length of a reference in bytes, so that many unclosed ones in a text cost linear time.
const maxReference = 1024

// reference is one ${…} that Sluice replaces.
type reference struct {
	text     string    // the original text, with ${ and }
	name     string    // cluster.name, cluster.labels.x, cluster.vars.x, environment, app, app.vars.x or each.…
	inner    []segment // parts of the name, if it contains references
	fallback string
	optional bool // it has a fallback
}

// segment is a part of a text: literal, or a reference.
type segment struct {
	literal string
	ref     *reference
}

// Prefixes of references whose last part is a label or a variable.
const (
	refLabels  = "cluster.labels."
	refVars    = "cluster.vars."
	refAppVars = "app.vars."
	refEach    = "each."
)

func refPrefixes() []string {
	return []string{refLabels, refVars, refAppVars, refEach + "labels.", refEach + "vars."}
}

// eachFields are the fields of a described cluster; beside them, it has labels and vars.
func eachFields() []string { return []string{"name", "kubeVersion", "environment"} }

// parseReferences splits a text. References are `environment`, `app`, the fields of `each`, and names that begin with
// `cluster.`, `app.vars.`, `each.labels.` or `each.vars.`. A name that is similar to one of them is an error; any other
// ${…} stays as it is. `$${` is a literal `${`.
func parseReferences(text string) ([]segment, error) {
	var out []segment
	var literal strings.Builder
	for rest := text; rest != ""; {
		i := strings.Index(rest, "${")
		if i < 0 {
			literal.WriteString(rest)
			break
		}
		if i > 0 && rest[i-1] == '$' {
			literal.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		literal.WriteString(rest[:i])
		ref, length, err := readReference(rest[i:])
		if err != nil {
			return nil, err
		}
		if ref == nil {
			literal.WriteString("${")
			rest = rest[i+2:]
			continue
		}
		if literal.Len() > 0 {
			out = append(out, segment{literal: literal.String()})
			literal.Reset()
		}
		out = append(out, segment{ref: ref})
		rest = rest[i+length:]
	}
	if literal.Len() > 0 {
		out = append(out, segment{literal: literal.String()})
	}
	return out, nil
}

// readReference parses the reference at the beginning of text; nil if it is not one of Sluice's.
func readReference(text string) (*reference, int, error) {
	body := text[2:]
	if !own(body) {
		return nil, 0, nearMiss(body)
	}
	end := closing(body[:min(len(body), maxReference)])
	if end < 0 {
		return nil, 0, fmt.Errorf("%.40q has no closing } on its line within %d characters", text, maxReference)
	}
	name, fallback, optional := cutFallback(body[:end])
	ref := &reference{text: text[:end+3], name: name, fallback: fallback, optional: optional}
	if err := ref.check(); err != nil {
		return nil, 0, err
	}
	return ref, end + 3, nil
}

func (r *reference) check() error {
	before, _, nested := strings.Cut(r.name, "${")
	known := r.name == "cluster.name" || r.name == "environment" || r.name == "app" ||
		slices.Contains(eachFields(), strings.TrimPrefix(r.name, refEach)) && strings.HasPrefix(r.name, refEach)
	for _, prefix := range refPrefixes() {
		known = known || strings.HasPrefix(before, prefix) && len(r.name) > len(prefix)
	}
	if !known {
		return fmt.Errorf("%s is not a reference%s: cluster.name, cluster.labels.…, cluster.vars.…, environment, app, app.vars.…, and, in an app with forEach, each.… are; write $${ for a literal ${",
			r.text, suggestReference(r.name))
	}
	if nested {
		var err error
		if r.inner, err = parseReferences(r.name); err != nil {
			return err
		}
	}
	for i := range len(r.fallback) {
		if inner, found := strings.CutPrefix(r.fallback[i:], "${"); found && own(inner) {
			return fmt.Errorf("%s: a fallback cannot hold a reference", r.text)
		}
	}
	return nil
}

// cutFallback cuts a reference at the := that is not inside an inner reference.
func cutFallback(body string) (name, fallback string, optional bool) {
	depth := 0
	for i := range len(body) {
		switch body[i] {
		case '{':
			depth++
		case '}':
			depth--
		case ':':
			if depth == 0 && strings.HasPrefix(body[i:], ":=") {
				return body[:i], body[i+2:], true
			}
		}
	}
	return body, "", false
}

// closing finds the brace that ends a reference, on the same line; a fallback such as {} may contain braces.
func closing(body string) int {
	depth := 0
	for i := range len(body) {
		switch body[i] {
		case '\n':
			return -1
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// own reports whether the text after a ${ begins like a reference of Sluice.
func own(body string) bool {
	return strings.HasPrefix(body, "cluster.") || strings.HasPrefix(body, refAppVars) || ownName(body, "environment") ||
		ownName(body, "app") || ownEach(body)
}

// ownEach reports whether the text after a ${ is about a described cluster. Terraform's ${each.key} and ${each.value}
// are not.
func ownEach(body string) bool {
	member, ok := strings.CutPrefix(body, refEach)
	return ok && (strings.HasPrefix(member, "labels.") || strings.HasPrefix(member, "vars.") ||
		slices.ContainsFunc(eachFields(), func(field string) bool { return ownName(member, field) }))
}

func ownName(body, name string) bool {
	return strings.HasPrefix(body, name+"}") || strings.HasPrefix(body, name+":=")
}

// nearMiss returns an error if the text after a ${ is similar to a reference of Sluice. Names in capitals or with
// underscores are variables of shells and of other tools, and never count as similar.
func nearMiss(body string) error {
	end := strings.IndexFunc(body, func(r rune) bool {
		return r != '.' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if end <= 0 || body[end] != '}' && body[end] != ':' {
		return nil
	}
	name := body[:end]
	suggestion := suggestReference(name)
	if suggestion == "" || name == strings.ToUpper(name) {
		return nil
	}
	return fmt.Errorf("${%s} is not a reference%s (write $${ for a literal ${)", name, suggestion)
}

// suggestReference returns the reference that a name is similar to; "" if none is.
func suggestReference(name string) string {
	const near = 2
	distance := func(a, b string) int { return levenshtein.ComputeDistance(strings.ToLower(a), b) }
	first, rest, dotted := strings.Cut(name, ".")
	suggest := ""
	switch {
	case !dotted && distance(name, "environment") <= near, dotted && distance(first, "environment") <= near:
		suggest = "environment"
	case !dotted && (strings.EqualFold(name, "cluster") || strings.EqualFold(name, "clustername") ||
		strings.EqualFold(name, "clusters")):
		suggest = "cluster.name"
	case !dotted && (strings.EqualFold(name, "apps") || name == "App"):
		suggest = "app"
	case strings.EqualFold(first, "each") && dotted && memberOf(rest, append(eachFields(), "labels", "vars")...) != rest:
		suggest = refEach + memberOf(rest, append(eachFields(), "labels", "vars")...)
	case dotted && distance(first, "cluster") <= near:
		suggest = "cluster." + memberOf(rest, "name", "labels", "vars")
	case dotted && (first == "app" || strings.EqualFold(first, "apps")):
		if rest == "name" {
			suggest = "app"
		} else if member := memberOf(rest, "vars"); strings.HasPrefix(member, "vars") {
			suggest = "app." + member
		}
	}
	if suggest == "" || suggest == name {
		return ""
	}
	return ", did you mean ${" + suggest + "}?"
}

// memberOf replaces the first part of a dotted name by the most similar known one, if one is similar.
func memberOf(rest string, known ...string) string {
	first, below, dotted := strings.Cut(rest, ".")
	best := cmp.Or(nearest.Name(first, known), first)
	if dotted && best != "name" {
		return best + "." + below
	}
	return best
}

// Refers reports whether Sluice would replace or refuse something in a values file with the text.
func Refers(text string) bool {
	if !strings.Contains(text, "${") {
		return false
	}
	segments, err := parseReferences(text)
	return err != nil || strings.Contains(text, "$${") || slices.ContainsFunc(segments,
		func(s segment) bool { return s.ref != nil })
}

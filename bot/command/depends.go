package command

import (
	"bytes"
	"slices"
	"strings"
)

const (
	dependsKey  = "depends-on:"
	maxDepends  = 100     // addresses that are returned
	maxDescribe = 1 << 20 // bytes of a description: GitLab's limit, which is the greatest. Longer ones have no address
)

// DependsOn returns the addresses in lines `Depends-On: URL` of a merge request's description, each once, in order. A
// line counts if it begins at column 0 and is not part of code, a quotation, a formula or HTML. Text in <details> does
// not count either: tools copy the descriptions of other projects there. The case of the key does not matter. An
// address may be empty.
func DependsOn(description string) []string {
	source := []byte(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(description))
	if len(source) > maxDescribe || !bytes.Contains(bytes.ToLower(source), []byte(dependsKey)) {
		return nil
	}
	d := scan(source)
	var out []string
	for _, p := range d.paragraphs {
		at := p.from
		for text := range bytes.Lines(source[p.from:p.to]) {
			from := at
			at += len(text)
			if len(text) < len(dependsKey) || !strings.EqualFold(string(text[:len(dependsKey)]), dependsKey) {
				continue
			}
			// outside also says why a command would not run there, which does not concern this line.
			if shown, _ := d.outside(from); !shown || !d.unfolded(from) {
				continue
			}
			address := ""
			if words := strings.Fields(string(text[len(dependsKey):])); len(words) > 0 {
				address = strings.TrimSuffix(strings.TrimPrefix(words[0], "<"), ">")
			}
			if !slices.Contains(out, address) && len(out) < maxDepends {
				out = append(out, address)
			}
		}
	}
	return out
}

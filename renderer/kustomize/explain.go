package kustomize

import (
	"regexp"
	"strconv"
	"strings"
)

// buildError is what the library said, in words for somebody who never saw the bundle.
type buildError struct {
	text  string
	cause error
}

func (e *buildError) Error() string { return e.text }
func (e *buildError) Unwrap() error { return e.cause }

// The library says how it came to an error in ways that mislead: that it had tried a base as a file and a file as a base,
// and errors of components inside Go's quotes, once per level.
var (
	baseAsFile = regexp.MustCompile(`accumulation err='accumulating resources from '[^']*': '[^']*' must resolve to a file': `)
	fileAsBase = regexp.MustCompile(`accumulation err='(.*?)': must build at directory: .*?: file is not directory`)
	recursed   = regexp.MustCompile(`recursed (accumulation of|merging from) path '([^']*)'`)
)

const inQuotes = "accumulateDirectory: "

// plainly undoes that.
func plainly(text string) string {
	for range maxDepth {
		before, quoted, ok := strings.Cut(text, inQuotes)
		inner, err := strconv.Unquote(quoted)
		if !ok || err != nil {
			break
		}
		text = strings.TrimSuffix(before, "accumulating components: ") + inner
	}
	text = baseAsFile.ReplaceAllString(text, "")
	text = fileAsBase.ReplaceAllString(text, "$1")
	text = recursed.ReplaceAllString(text, "$2")
	return strings.TrimPrefix(text, "accumulating resources: ")
}

// maxText of an error is shown: the library quotes whole objects.
const maxText = 1500

// explain takes the bundle's places out of an error of the library, shortens it and adds the next step. Names, if any,
// replaces paths of the bundle by what their owner calls them.
func explain(err error, names *strings.Replacer) error {
	text := plainly(err.Error())
	text = strings.ReplaceAll(text, mount+"/", "")
	text = strings.ReplaceAll(text, mount, ".")
	if names != nil {
		text = names.Replace(text)
	}
	text = strings.TrimSpace(text)
	next := advice(text)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	if next != "" {
		text += ": " + next
	}
	return &buildError{text: text, cause: err}
}

// advice is the next step for what people meet most.
func advice(text string) string {
	for _, a := range []struct{ sign, next string }{
		{"already registered id", "two objects have this kind, name and namespace (no namespace counts as `default`); rename or remove one"},
		{"may not add resource with", "two objects have this kind, name and namespace (no namespace counts as `default`); rename or remove one"},
		{"no resource matches strategic merge patch", "the patch names an object that is not there; correct its kind, name or namespace, or give the patch a target"},
		{"no matches for Id", "no object has this kind, name and namespace; correct the reference to it"},
		{"multiple matches for Id", "several objects have this kind and name; name the namespace too"},
		{"unable to parse SM or JSON patch", "a patch is an object with apiVersion, kind and metadata.name, or a list of JSON 6902 operations (JSON if it starts with `[`)"},
		{"missing metadata.name", "give the object a name; metadata.generateName is not enough"},
		{"empty item at", "a list holds an empty item, which Kustomize refuses; remove it"},
		{"doc is missing path", "the JSON patch's path is not in the object; correct it, or add its parent first"},
		{"path does not exist", "the JSON patch's path is not in the object; correct it, or add its parent first"},
		{"kustomization.yaml is empty", "list resources in it, or remove the reference to it"},
	} {
		if strings.Contains(text, a.sign) {
			return a.next
		}
	}
	return ""
}

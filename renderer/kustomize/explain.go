package kustomize

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// buildError is an error of the library, rewritten for a user who does not know the bundle.
type buildError struct {
	text  string
	cause error
}

func (e *buildError) Error() string { return e.text }
func (e *buildError) Unwrap() error { return e.cause }

// The library's errors mention misleading attempts: to read a base as a file, and a file as a base. Errors of
// components are quoted Go strings, once per level.
var (
	baseAsFile = regexp.MustCompile(`accumulation err='accumulating resources from '[^']*': '[^']*' must resolve to a file': `)
	fileAsBase = regexp.MustCompile(`accumulation err='(.*?)': must build at directory: .*?: file is not directory`)
	recursed   = regexp.MustCompile(`recursed (accumulation of|merging from) path '([^']*)'`)
)

const inQuotes = "accumulateDirectory: "

// withoutAttempts removes the attempts and the quotes.
func withoutAttempts(text string) string {
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

// maxText limits the characters of an error: the library quotes whole objects.
const maxText = 1500

// rewrite removes the paths of the mounted bundle from an error of the library, shortens it and adds the next step.
// Names, if not nil, replaces paths of the bundle by those in the repository.
func rewrite(err error, names *strings.Replacer) error {
	text := withoutAttempts(err.Error())
	text = strings.ReplaceAll(text, mount+"/", "")
	text = strings.ReplaceAll(text, mount, ".")
	if names != nil {
		text = names.Replace(text)
	}
	text = strings.TrimSpace(text)
	next := advice(text)
	text = safetext.Shorten(text, maxText)
	if next != "" {
		text += ": " + next
	}
	return &buildError{text: text, cause: err}
}

// advice returns the next step for common errors.
func advice(text string) string {
	for _, a := range []struct{ sign, next string }{
		{
			"already registered id",
			"two objects have this kind, name and namespace (no namespace counts as `default`); rename or remove one",
		},
		{
			"may not add resource with",
			"two objects have this kind, name and namespace (no namespace counts as `default`); rename or remove one",
		},
		{
			"no resource matches strategic merge patch",
			"the object of the patch does not exist; correct its kind, name or namespace, or give the patch a target",
		},
		{"no matches for Id", "no object has this kind, name and namespace; correct the reference to it"},
		{"multiple matches for Id", "several objects have this kind and name; name the namespace too"},
		{
			"unable to parse SM or JSON patch",
			"a patch is an object with apiVersion, kind and metadata.name, or a list of JSON 6902 operations (JSON if it starts with `[`)",
		},
		{"missing metadata.name", "give the object a name; metadata.generateName is not enough"},
		{"empty item at", "a list holds an empty item, which Kustomize refuses; remove it"},
		{"doc is missing path", "the object does not have the path of the JSON patch; correct it, or add its parent first"},
		{"path does not exist", "the object does not have the path of the JSON patch; correct it, or add its parent first"},
		{"kustomization.yaml is empty", "list resources in it, or remove the reference to it"},
	} {
		if strings.Contains(text, a.sign) {
			return a.next
		}
	}
	return ""
}

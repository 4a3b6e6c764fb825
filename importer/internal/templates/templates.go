// Package templates executes the Go templates of other tools: ApplicationSets of Argo CD and ResourceSets of the Flux
// Operator. Their authors can be anybody who opens a merge request, so Rounds limits the work of templates and Output
// their result. MakeDeterministic makes Sprig's functions depend on nothing but their arguments.
package templates

import (
	"bytes"
	"fmt"
	"strings"
)

// MaxText limits the bytes of one template's output.
const MaxText = 4 << 20

// Output is a buffer of at most MaxText bytes.
type Output struct{ bytes.Buffer }

// Write implements io.Writer. It fails beyond MaxText bytes.
func (o *Output) Write(p []byte) (int, error) {
	if o.Len()+len(p) > MaxText {
		return 0, fmt.Errorf("the outcome has more than %d MiB", MaxText>>20)
	}
	return o.Buffer.Write(p)
}

// CutAtWord shortens a slug to at most limit bytes: before the last hyphen that makes it short enough, or within a word
// if there is no such hyphen.
func CutAtWord(slug string, limit int) string {
	if len(slug) <= limit {
		return slug
	}
	// the hyphen may be the first byte that is cut off
	if end := strings.LastIndex(slug[:limit+1], "-"); end >= 0 {
		return slug[:end]
	}
	return slug[:limit]
}

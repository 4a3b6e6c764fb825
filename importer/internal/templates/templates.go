// Package templates has what templates of several tools share.
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

// CutAtWord shortens a slug to at most limit bytes: before its last possible hyphen, or anywhere if it has none there.
func CutAtWord(slug string, limit int) string {
	if len(slug) <= limit {
		return slug
	}
	if end := strings.LastIndex(slug[:limit+1], "-"); end >= 0 {
		return slug[:end]
	}
	return slug[:limit]
}

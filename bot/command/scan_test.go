package command

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// The spans of each list of a document are in order and do not overlap, which within needs.
func TestSpansAreInOrder(t *testing.T) {
	t.Parallel()
	pieces := []string{
		"<!--", "-->", "<!-->", "$$", "$", ">>>\n", "\n", "\n\n", "```\n", "~~~\n", "`", "<pre>",
		"</pre>", "<?", "?>", "<![CDATA[", "]]>", "<!x", ">", "> ", "- ", "1. ", "<b>", "</b>", "<details>",
		"</details>", "\\", "a ", "\n/sluice help\n",
	}
	random := rand.New(rand.NewPCG(1, 2))
	seen := 0
	for range 5_000 {
		var text strings.Builder
		for range random.IntN(40) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		d := scan([]byte(text.String()))
		for name, spans := range map[string][]span{
			"quotations": d.quotations, "comments": d.comments, "raw": d.raw,
			"formulas": d.formulas,
		} {
			end := 0
			for _, s := range spans {
				if s.from < end || s.to < s.from {
					t.Fatalf("%s of %q: %v", name, text.String(), spans)
				}
				end = s.to
				seen++
			}
		}
	}
	if seen < 2_000 {
		t.Errorf("%d spans: the texts have too few structures", seen)
	}
}

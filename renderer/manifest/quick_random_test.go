package manifest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestQuicklyOnRandomDocuments puts lines together from parts that YAML reads in different ways, of which a fuzzer finds few.
// SLUICE_DOCUMENTS sets the number of documents.
func TestQuicklyOnRandomDocuments(t *testing.T) {
	t.Parallel()
	count := 20_000
	if n, err := strconv.Atoi(os.Getenv("SLUICE_DOCUMENTS")); err == nil {
		count = n
	}
	keys := []string{"a", "b", "c", "apiVersion", "on", "y", "1", "1.5", "null", "~", "a b", "a.b/c", `"q"`, `"q: r"`, `'s'`, `'it''s'`, "a:b", "a#b", "a #b", "-a", "- a", "?a", "? a", ".x", ".5", "0x1", "true", "é", "<<", "=", "a'b", `a"b`, "2020-01-01", "{a}", "[a]", "&a", "*a", "!a", "|", ">", "%a", "@a", "`a", "---", "...", "1e3", "0o7", "-", "--", "a ", "'a' ", "12:30", "_1", "1_"}
	values := []string{
		"", "", "", "a", "text of words", "1", "'open", `"open`, "-1", "0", "-0", "00", "007", "08", "0.5", "1.", ".5", "-.5", "1.50", "1.2.3", "1..2", "12345678901234567890", "123456789012345", "1234567890123456", "1e3", "1E3", "1e", "0x1F", "0xg", "0b1", "0b2", "0o17", "1_000", "1_", "_1", "+1", "+a", "-a", "--", "-", "- a", "- a: b", "true", "True", "yes", "No", "on", "OFF", "y", "N", "null", "~", "NULL", "nUll", ".inf", "-.inf", ".nan", ".Inf", ".a", "./a", "..", ".", "2020-01-01", "2020-01-01T00:00:00Z", "12:30", "12:30:45", "190:20:30", "1:2", "a: b", "a:", "a:b", "a #b", "a#b", "#b", "# b", "a # b", "{}", "[]", "{a: b}", "[a, b]", "{a: 1, b: [x, 'y']}", "[a, ]", "{a}", "{a:1}", `{"a":1}`, `{'a':"b"}`, "[a b]", "[ ]", "{ }", "[[]]", "[{}]", "[-]", "[- a]", "[1, 2.5, true, ~]", "[a: b]", "{a: }", "{ a : b }", `"q"`, `"q" # c`, `"q"#c`, `"q\n"`, `"q\x"`, `"q\u00e9"`, `"`, `'`, `'it''s'`, `''`, `""`, `"a" b`, `'a' 'b'`, `'a'''`, `"a\"`, `"a\\"`, `"a\/b"`, "|", "|-", "|+", "|2", ">", ">-", "| # c", "|- ", "&a b", "*a", "!!str 1", "!a b", "%a", "@a", "`a", "?", "? a", "?a", "é", "a\tb", "\ta", "a\t", "=", "<<", "a'b", `a"b`, "a]b", "a,b", "a}", "100m", "1Gi", "10.0.0.1", "10.0.0.0/8", "1-2", "1-2-3", "1.2-rc", "v1", "0644", "0.0", "-0.0", "1.0", "1e+3", "1.5e3", "---", "...", "0", "0a", "0c", "0_", "-1_0", "-0x1", "1T", "1Z", "2001-1-1", "99-1", "http://a/b:80", "a: 'b'", "key: |", "infinity", "nan", "'open", `"open`, "'it''s open  ", `"\"open`, `"open \`, "9223372036854775807", "9223372036854775808", "-9223372036854775808",
	}
	lines := []string{"", "", " ", "   ", "# c", "  # c", "text", "text", "text", "more text # c", "text  ", "- text", "'text'", "[text]", "text:", "text: x", "---", "...", "\t", "  \t", "%x", "end'", `end"`, "end' # c", `end" # c`, "end'''", "''", `\"`, `\n end"`, "# end'", `x \`, "end': x"}
	tails := []string{"", "", "", "", " ", "  ", " # c", " #", "\t", "#c", " \t# c"}
	read := 0
	for i := range count {
		r := rand.New(rand.NewPCG(uint64(i), 11))
		pick := func(from []string) string { return from[r.IntN(len(from))] }
		var doc strings.Builder
		indent := 0
		for line := range 1 + r.IntN(12) {
			if r.IntN(8) == 0 { // for literal blocks and folded scalars
				doc.WriteString(strings.Repeat(" ", max(0, indent-1)+r.IntN(4)) + pick(lines) + "\n")
				continue
			}
			doc.WriteString(strings.Repeat(" ", indent))
			for r.IntN(6) == 0 {
				doc.WriteString("-" + strings.Repeat(" ", 1+r.IntN(2)))
			}
			key, value, tail := "", values[r.IntN(8)], ""
			if r.IntN(3) == 0 {
				value = pick(values)
			}
			if r.IntN(6) == 0 {
				tail = pick(tails)
			}
			if r.IntN(12) > 0 {
				key = "k" + strconv.Itoa(line)
				if r.IntN(8) == 0 {
					key = pick(keys)
				}
				if r.IntN(60) > 0 {
					key += ":"
				}
				if value != "" && r.IntN(60) > 0 {
					key += strings.Repeat(" ", 1+r.IntN(8)/7)
				}
			}
			doc.WriteString(key + value + tail + "\n")
			switch opens := value == "" || strings.HasPrefix(value, "|"); {
			case opens && r.IntN(4) > 0, r.IntN(8) == 0:
				indent += 1 + r.IntN(3)
			case r.IntN(3) == 0:
				indent = max(0, indent-2)
			case r.IntN(3) == 0:
				indent = 0
			}
		}
		if checkQuickly(t, doc.String()) {
			read++
		}
	}
	if read < count/20 {
		t.Errorf("only %d of %d documents are read quickly: the test shows little", read, count)
	}
	t.Logf("%d of %d documents are read quickly", read, count)
}

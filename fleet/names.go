package fleet

import (
	"path"
	"strings"
)

const maxName = 63

// validName reports whether a name can be part of a path, of a branch and of a label's value.
func validName(s string) bool {
	return len(s) <= maxName && dotted(s, isLowerAlnum, "-.") && !strings.Contains(s, "..") &&
		!strings.HasSuffix(s, ".lock")
}

// ValidName reports whether a cluster, an app or a repository can have the name.
func ValidName(s string) bool { return validName(s) }

// validNamespace checks Kubernetes' rule for the name of a namespace.
func validNamespace(s string) bool { return len(s) <= maxName && dotted(s, isLowerAlnum, "-") }

func validLabelKey(s string) bool {
	const maxPrefix = 253
	prefix, name, found := strings.Cut(s, "/")
	if !found {
		name = prefix
	} else if len(prefix) > maxPrefix || !dotted(prefix, isLowerAlnum, "-.") || strings.Contains(prefix, "..") {
		return false
	}
	return len(name) <= maxName && dotted(name, isAlnum, "-_.")
}

func validLabelValue(s string) bool {
	return s == "" || len(s) <= maxName && dotted(s, isAlnum, "-_.")
}

// dotted reports whether a text begins and ends with an edge character and has only edge and inner ones between.
func dotted(s string, edge func(byte) bool, inner string) bool {
	if s == "" || !edge(s[0]) || !edge(s[len(s)-1]) {
		return false
	}
	for i := 1; i < len(s)-1; i++ {
		if !edge(s[i]) && strings.IndexByte(inner, s[i]) < 0 {
			return false
		}
	}
	return true
}

func isLowerAlnum(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

func isAlnum(c byte) bool { return isLowerAlnum(c) || c >= 'A' && c <= 'Z' }

// findCycle finds a cycle that can be reached from a node; nil if there is none. seen holds nodes that reach no cycle,
// so that each node is visited once over several calls.
func findCycle(name string, next map[string][]string, seen map[string]bool) []string {
	var stack []string
	var visit func(name string) []string
	visit = func(name string) []string {
		if seen[name] {
			return nil
		}
		for i, above := range stack {
			if above == name {
				return append(append([]string(nil), stack[i:]...), name)
			}
		}
		stack = append(stack, name)
		for _, n := range next[name] {
			if cycle := visit(n); cycle != nil {
				return cycle
			}
		}
		stack = stack[:len(stack)-1]
		seen[name] = true
		return nil
	}
	return visit(name)
}

// dirOf is the folder of a file, "" for the root.
func dirOf(file string) string {
	if dir := path.Dir(file); dir != "." {
		return dir
	}
	return ""
}

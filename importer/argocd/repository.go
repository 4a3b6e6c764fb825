package argocd

import (
	"path"
	"strings"

	"github.com/sluice-gitops/sluice/internal/giturl"
)

// repositories decides which URLs are the repository.
func (i *importer) repositories(found []located) {
	for _, url := range i.Repositories {
		i.own[giturl.Key(url)] = true
	}
	if len(i.own) > 0 {
		return
	}
	votes := map[string]int{}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				visit(item)
			}
		case map[string]any:
			if url, ok := v["repoURL"].(string); ok && v["chart"] == nil && !strings.Contains(url, "{{") {
				votes[giturl.Key(url)] += i.vote(v)
			}
			for _, inner := range v {
				visit(inner)
			}
		}
	}
	for _, f := range found {
		visit(map[string]any(f.object))
	}
	best, most := "", 0
	for url, n := range votes {
		if n > most || n == most && n > 0 && url < best {
			best, most = url, n
		}
	}
	if best != "" {
		i.own[best] = true
	}
}

// vote is 1 if what a source names is in the commit.
func (i *importer) vote(source map[string]any) int {
	if text, ok := source["path"].(string); ok {
		dir, _, templated := strings.Cut(text, "{{")
		if templated {
			dir = path.Dir(dir + "x")
		}
		if info, err := i.Tree.Stat(path.Clean(dir)); err == nil && info.IsDir() && path.Clean(dir) != "." {
			return 1
		}
	}
	for _, field := range []string{"directories", "files"} {
		list, _ := source[field].([]any)
		for _, item := range list {
			item, _ := item.(map[string]any)
			pattern, _ := item["path"].(string)
			dir, _, _ := strings.Cut(pattern, "*")
			if info, err := i.Tree.Stat(path.Clean(path.Dir(dir + "x"))); err == nil && info.IsDir() {
				return 1
			}
		}
	}
	return 0
}

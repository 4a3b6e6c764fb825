package gitea

import (
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

// CompareURL implements forge.Links.
func (f *Forge) CompareURL(mr *forge.MergeRequest, source, repo forge.Repository, base, head string) string {
	web, ok := rest.WebBase(mr.URL, source.Path, "/pulls/")
	if !ok {
		return ""
	}
	return web + "/" + repo.Path + "/compare/" + base + "..." + head
}

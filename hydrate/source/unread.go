package source

import (
	"context"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/check"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/renderer/chartvalues"
	"github.com/sluice-gitops/sluice/renderer/helm"
)

// UnreadValues warns about values of targets that no template of their charts reads; see check.UnreadValues. It reads
// archives that sluice.lock pins.
func (v *View) UnreadValues(ctx context.Context, targets []fleet.Target) fleet.Problems {
	local := check.OfTree(v.Fleet)
	charts := func(ctx context.Context, s *fleet.HelmSource) []chartvalues.File {
		if s.Chart == "" {
			return local(ctx, s)
		}
		content, err := v.contents.archive(ctx, chartRef(s))
		if err != nil {
			return nil // the rendering reports it
		}
		files, err := helm.Unpack(helm.Helm4, content.Archive, helm.DefaultLimits())
		if err != nil {
			return nil
		}
		out := make([]chartvalues.File, len(files))
		for i, f := range files {
			out[i] = chartvalues.File{Path: f.Path, Data: f.Data}
		}
		return out
	}
	return check.UnreadValues(ctx, v.Fleet, targets, charts, explain.Imported)
}

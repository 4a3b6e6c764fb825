// Package bundle carries an environment from its home to a site that no network reaches: it exports, opens and imports
// transfer bundles.
//
// A transfer bundle is an envelope (package envelope) with the objects that the site lacks of home's environment branch
// and, on request, of the trunk, as a thin packfile of Git; with what it contains and why (bundle.json), the record of
// the environment, the list of images and a software bill of materials. "Bundle" means a transfer bundle here; the pure
// input of a rendering is renderer.Bundle.
//
// Home numbers the bundles of an environment on the branch sluice/bundles, by compare-and-swap, so that two processes
// never issue the same number. Each bundle names the one before it and the one that it builds on. A site keeps what it
// imported on sluice/incoming/<environment> (package incoming), and refuses what does not follow from that.
//
// The package trusts nothing of a file: callers verify signers (envelope.Trust) before they import. It moves no branch
// that clusters or promotions own: an import is a proposal.
//
// The package is not API: it can change in every release.
package bundle

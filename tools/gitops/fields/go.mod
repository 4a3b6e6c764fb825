module github.com/sluice-gitops/sluice/tools/gitops/fields

go 1.26.0

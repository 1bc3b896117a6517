"""Static files under names that hold the hash of their content, so that browsers may keep them for ever."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedStaticStorage(CompressedManifestStaticFilesStorage):
    """Also rewrites the imports between our ES modules to the hashed names."""

    support_js_module_import_aggregation = True

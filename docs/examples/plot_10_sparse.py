"""
Sparse samples with 50,000 features
===================================

Word counts have tens of thousands of features, nearly all of them zero. ``MPDA`` takes up to 5,000
sparse features directly. Of more, ``TruncatedSVD`` makes a few hundred first. Nothing here makes a
dense copy of the samples, which would have 8 GB.
"""

import numpy as np
from scipy.sparse import csr_array
from sklearn.decomposition import TruncatedSVD
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from mpda import MPDA

# %%
# Twenty thousand texts of twenty topics. A text has 60 words, ten of them from the 500 words that
# its topic prefers.
n, d, n_topics = 20_000, 50_000, 20
rng = np.random.default_rng(0)
y = rng.integers(0, n_topics, n)
preferred = rng.integers(0, d, (n_topics, 500))
own = preferred[y[:, None], rng.integers(0, 500, (n, 10))]
words = np.concatenate([own, rng.integers(0, d, (n, 50))], axis=1)
X = csr_array((np.ones(words.size), (np.repeat(np.arange(n), 60), words.ravel())), shape=(n, d))
print(f"{X.nnz:,} of {n * d:,} entries are not zero: {X.data.nbytes / 1e6:.0f} MB")

# %%
# ``MPDA`` alone refuses so many features and says what to do.
try:
    MPDA().fit(X, y)
except ValueError as error:
    print(error)

# %%
# The pipeline it names, and the error of 1-NN on texts that took no part in the fit:
train, test = np.arange(n) < 10_000, np.arange(n) >= 18_000
svd = {"n_iter": 2, "random_state": 0}
for name, method in {
    "TruncatedSVD(10)": make_pipeline(TruncatedSVD(10, **svd)),
    "TruncatedSVD(300), MPDA(10)": make_pipeline(TruncatedSVD(300, **svd), MPDA(10)),
}.items():
    model = make_pipeline(method, KNeighborsClassifier(1)).fit(X[train], y[train])
    print(f"{name}: {100 * (1 - model.score(X[test], y[test])):.1f} % wrong")
